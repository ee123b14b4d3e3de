package llamaflags

// sampling are the flags that control how tokens are chosen. Requests may override
// them.
var sampling = []Row{
	{Names: "--samplers", Group: Sampling, Flag: "samplers"},
	{Names: "--sampling-seq --sampler-seq", Group: Sampling, Flag: "sampler-seq"},
	{Names: "-s --seed", Group: Sampling | Tools, Flag: "seed"},
	{Names: "--ignore-eos", Kind: Bare, Group: Sampling, Flag: "ignore-eos"},
	{Names: "--temperature --temp", Kind: Num, Env: "LLAMA_ARG_TEMPERATURE", Group: Sampling, Flag: "temp"},
	{Names: "--top-k", Kind: Int, Env: "LLAMA_ARG_TOP_K", Group: Sampling, Flag: "top-k"},
	{Names: "--top-p", Kind: Num, Env: "LLAMA_ARG_TOP_P", Group: Sampling, Flag: "top-p"},
	{Names: "--min-p", Kind: Num, Env: "LLAMA_ARG_MIN_P", Group: Sampling, Flag: "min-p"},
	{Names: "--repeat-last-n", Kind: Int, Group: Sampling, Flag: "repeat-last-n"},
	{Names: "--repeat-penalty", Kind: Num, Env: "LLAMA_ARG_REPEAT_PENALTY", Group: Sampling, Flag: "repeat-penalty"},
	{Names: "--presence-penalty", Kind: Num, Env: "LLAMA_ARG_PRESENCE_PENALTY", Group: Sampling, Flag: "presence-penalty"},
	{Names: "--frequency-penalty", Kind: Num, Env: "LLAMA_ARG_FREQUENCY_PENALTY", Group: Sampling, Flag: "frequency-penalty"},
	{Names: "-l --logit-bias", Group: Sampling, Flag: "logit-bias"},

	{Names: "--top-nsigma --top-n-sigma", Kind: Num, Group: Sampling, Flag: "top-n-sigma"},
	{Names: "--typical --typical-p", Kind: Num, Group: Sampling, Flag: "typical-p"},
	{Names: "--xtc-probability", Kind: Num, Group: Sampling, Flag: "xtc-probability"},
	{Names: "--xtc-threshold", Kind: Num, Group: Sampling, Flag: "xtc-threshold"},
	{Names: "--dry-multiplier", Kind: Num, Group: Sampling, Flag: "dry-multiplier"},
	{Names: "--dry-base", Kind: Num, Group: Sampling, Flag: "dry-base"},
	{Names: "--dry-allowed-length", Kind: Int, Group: Sampling, Flag: "dry-allowed-length"},
	{Names: "--dry-penalty-last-n", Kind: Int, Group: Sampling, Flag: "dry-penalty-last-n", Note: "-1 is the whole text"},
	{Names: "--dry-sequence-breaker", Group: Sampling, Flag: "dry-sequence-breaker"},
	{Names: "--adaptive-target", Kind: Num, Group: Sampling, Flag: "adaptive-target", Note: "enables adaptive-p; with --samplers, adaptive_p must be in the list"},
	{Names: "--adaptive-decay", Kind: Num, Group: Sampling, Flag: "adaptive-decay"},
	{Names: "--dynatemp-range", Kind: Num, Group: Sampling, Flag: "dynatemp-range"},
	{Names: "--dynatemp-exp", Kind: Num, Group: Sampling, Flag: "dynatemp-exp"},
	{Names: "--mirostat", Kind: Int, Group: Sampling, Flag: "mirostat"},
	{Names: "--mirostat-lr", Kind: Num, Group: Sampling, Flag: "mirostat-lr"},
	{Names: "--mirostat-ent", Kind: Num, Group: Sampling, Flag: "mirostat-ent"},

	{Names: "--grammar", Group: Sampling, Flag: "grammar"},
	{Names: "--grammar-file", Group: Sampling, Flag: "grammar-file"},
	{Names: "-j --json-schema", Group: Sampling, Flag: "json-schema"},
	{Names: "-jf --json-schema-file", Group: Sampling, Flag: "json-schema-file"},
	{Names: "-bs --backend-sampling", Kind: Bare, Env: "LLAMA_ARG_BACKEND_SAMPLING", Group: Sampling, Ignored: noGPU},
}
