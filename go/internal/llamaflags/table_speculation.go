package llamaflags

const (
	noFile     = "drafts come from the text itself and from recent texts, not from files; leave the flag out: it does not change answers"
	sharedTeam = "all computation uses the threads of --threads"
	byMeasure  = "acceptance rates are measured for matches of any length, and the number of drafts follows from them"
	noModel    = "a draft model uses the settings of its target model"
	noReplay   = "quern bench --speculate replays acceptance rates"
)

// speculation are the flags of speculative decoding, with draft models or without.
var speculation = []Row{
	{Names: "-md --model-draft --spec-draft-model", Env: "LLAMA_ARG_SPEC_DRAFT_MODEL", Group: Speculation, Flag: "model-draft", Note: "a model with any vocabulary; the same vocabulary is fastest. Or a draft head for the model (EAGLE-3, DFlash, the assistant of Gemma 4). In a presets file, set per model"},
	{Names: "-hfd -hfrd --hf-repo-draft --spec-draft-hf", Env: "LLAMA_ARG_SPEC_DRAFT_HF_REPO", Group: Speculation, Flag: "hf-repo-draft", Note: "the same cache and servers as -hf; in a presets file, a model that was downloaded"},
	{Names: "--spec-type", Env: "LLAMA_ARG_SPEC_TYPE", Group: Speculation, Flag: "speculate", Note: "`ngram-*` are `ngram`, `ngram-mod` and `ngram-cache` also `recent`, `draft-simple` is `model`, `draft-mtp` is `mtp` and `head`, `draft-eagle3` and `draft-dflash` are `head`; without the flag it is `auto`"},
	{Names: "-td --threads-draft --spec-draft-threads", Kind: Int, Group: Speculation, Ignored: sharedTeam},
	{Names: "-tbd --threads-batch-draft --spec-draft-threads-batch", Kind: Int, Group: Speculation, Ignored: sharedTeam},
	{Names: "-Cd --cpu-mask-draft --spec-draft-cpu-mask", Group: Speculation, Ignored: sharedTeam},
	{Names: "-Crd --cpu-range-draft --spec-draft-cpu-range", Group: Speculation, Ignored: sharedTeam},
	{Names: "--cpu-strict-draft --spec-draft-cpu-strict", Kind: Int, Group: Speculation, Ignored: sharedTeam},
	{Names: "--prio-draft --spec-draft-prio", Kind: Int, Group: Speculation, Ignored: sharedTeam},
	{Names: "--poll-draft --spec-draft-poll", Kind: Int, Group: Speculation, Ignored: sharedTeam},
	{Names: "-Cbd --cpu-mask-batch-draft --spec-draft-cpu-mask-batch", Group: Speculation, Ignored: sharedTeam},
	{Names: "--cpu-strict-batch-draft --spec-draft-cpu-strict-batch", Kind: Int, Group: Speculation, Ignored: sharedTeam},
	{Names: "--prio-batch-draft --spec-draft-prio-batch", Kind: Int, Group: Speculation, Ignored: sharedTeam},
	{Names: "--poll-batch-draft --spec-draft-poll-batch", Kind: Int, Group: Speculation, Ignored: sharedTeam},
	{Names: "-ctkd --cache-type-k-draft --spec-draft-type-k", Env: "LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K", Group: Speculation, Ignored: noModel},
	{Names: "-ctvd --cache-type-v-draft --spec-draft-type-v", Env: "LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_V", Group: Speculation, Ignored: noModel},
	{Names: "-otd --override-tensor-draft --spec-draft-override-tensor", Group: Speculation, Ignored: noModel},
	{Names: "-cmoed --cpu-moe-draft --spec-draft-cpu-moe", Kind: Bare, Env: "LLAMA_ARG_SPEC_DRAFT_CPU_MOE", Group: Speculation, Ignored: noModel},
	{Names: "-ncmoed --n-cpu-moe-draft --spec-draft-ncmoe --spec-draft-n-cpu-moe", Kind: Int, Env: "LLAMA_ARG_SPEC_DRAFT_N_CPU_MOE", Group: Speculation, Ignored: noModel},
	{Names: "--spec-draft-n-max", Kind: Int, Env: "LLAMA_ARG_SPEC_DRAFT_N_MAX", Group: Speculation, Flag: "draft-max", Note: "more than 31 are 31"},
	{Names: "--spec-draft-n-min", Kind: Int, Env: "LLAMA_ARG_SPEC_DRAFT_N_MIN", Group: Speculation, Flag: "draft-min"},
	{Names: "--spec-synth-len", Env: "LLAMA_ARG_SPEC_SYNTH_LEN", Group: Speculation, Ignored: noReplay},
	{Names: "--spec-synth-rates", Env: "LLAMA_ARG_SPEC_SYNTH_RATES", Group: Speculation, Ignored: noReplay},
	{Names: "--draft-p-split --spec-draft-p-split", Kind: Num, Env: "LLAMA_ARG_SPEC_DRAFT_P_SPLIT", Group: Speculation, Ignored: byMeasure},
	{Names: "--spec-draft-p-min --draft-p-min", Kind: Num, Env: "LLAMA_ARG_SPEC_DRAFT_P_MIN", Group: Speculation, Flag: "draft-p-min"},
	{Names: "--spec-draft-backend-sampling", No: "--no-spec-draft-backend-sampling", Kind: Switch, Env: "LLAMA_ARG_SPEC_DRAFT_BACKEND_SAMPLING", Group: Speculation, Neutral: "off", Ignored: noModel},
	{Names: "-devd --device-draft --spec-draft-device", Group: Speculation, Neutral: "none", Ignored: noGPU},
	{Names: "-ngld --gpu-layers-draft --n-gpu-layers-draft --spec-draft-ngl", Env: "LLAMA_ARG_N_GPU_LAYERS_DRAFT", Group: Speculation, Neutral: "0", Ignored: noGPU},
	{Names: "--spec-ngram-mod-n-min", Kind: Int, Group: Speculation, Ignored: byMeasure},
	{Names: "--spec-ngram-mod-n-max", Kind: Int, Group: Speculation, Ignored: byMeasure},
	{Names: "--spec-ngram-mod-n-match", Kind: Int, Group: Speculation, Ignored: byMeasure},
	{Names: "--spec-ngram-simple-size-n", Kind: Int, Group: Speculation, Ignored: byMeasure},
	{Names: "--spec-ngram-simple-size-m", Kind: Int, Group: Speculation, Ignored: byMeasure},
	{Names: "--spec-ngram-simple-min-hits", Kind: Int, Group: Speculation, Ignored: byMeasure},
	{Names: "--spec-ngram-map-k-size-n", Kind: Int, Group: Speculation, Ignored: byMeasure},
	{Names: "--spec-ngram-map-k-size-m", Kind: Int, Group: Speculation, Ignored: byMeasure},
	{Names: "--spec-ngram-map-k-min-hits", Kind: Int, Group: Speculation, Ignored: byMeasure},
	{Names: "--spec-ngram-map-k4v-size-n", Kind: Int, Group: Speculation, Ignored: byMeasure},
	{Names: "--spec-ngram-map-k4v-size-m", Kind: Int, Group: Speculation, Ignored: byMeasure},
	{Names: "--spec-ngram-map-k4v-min-hits", Kind: Int, Group: Speculation, Ignored: byMeasure},
	{Names: "--draft-n --draft --draft-max", Kind: Int, Env: "LLAMA_ARG_DRAFT_MAX", Group: Speculation, Flag: "draft-max"},
	{Names: "--draft-n-min --draft-min", Kind: Int, Env: "LLAMA_ARG_DRAFT_MIN", Group: Speculation, Flag: "draft-min"},
	{Names: "--spec-ngram-size-n", Kind: Int, Group: Speculation, Ignored: byMeasure},
	{Names: "--spec-ngram-size-m", Kind: Int, Group: Speculation, Ignored: byMeasure},
	{Names: "--spec-ngram-min-hits", Kind: Int, Group: Speculation, Ignored: byMeasure},
	{Names: "-lcs --lookup-cache-static", Group: Speculation, Refused: noFile},
	{Names: "-lcd --lookup-cache-dynamic", Group: Speculation, Refused: noFile},
	{Names: "--spec-default", Kind: Bare, Group: Speculation, Becomes: map[string]string{"on": "speculate=auto"}},
}
