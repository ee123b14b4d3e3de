package llamaflags

const (
	noGrammar  = "answers cannot be held to a grammar yet; leave the flag out and ask for the form in the prompt"
	noXTC      = "XTC sampling is not supported yet; leave the flag out"
	noDRY      = "DRY sampling is not supported yet; --repeat-penalty, --presence-penalty and --frequency-penalty are"
	noTypical  = "locally typical sampling is not supported yet; --top-p and --min-p are"
	noSigma    = "top-n-sigma sampling is not supported yet; --min-p cuts a tail too"
	noMirostat = "Mirostat is not supported yet; --min-p and --temp are"
	noAdaptive = "adaptive-p sampling is not supported yet; leave the flag out"
	noDynamic  = "dynamic temperature is not supported yet; --temp is"
)

// sampling are the flags that control how tokens are chosen. Requests may override
// them.
var sampling = []Row{
	{Names: "--samplers", Group: Sampling, Flag: "samplers", Note: "the order is fixed; those left out are off"},
	{Names: "--sampling-seq --sampler-seq", Group: Sampling, Flag: "sampler-seq", Note: "as --samplers, in letters"},
	{Names: "-s --seed", Group: Sampling, Flag: "seed"},
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

	{Names: "--top-nsigma --top-n-sigma", Kind: Num, Group: Sampling, Neutral: "<=0", Refused: noSigma},
	{Names: "--typical --typical-p", Kind: Num, Group: Sampling, Neutral: "1", Refused: noTypical},
	{Names: "--xtc-probability", Kind: Num, Group: Sampling, Neutral: "0", Refused: noXTC},
	{Names: "--xtc-threshold", Kind: Num, Group: Sampling, Ignored: noXTC},
	{Names: "--dry-multiplier", Kind: Num, Group: Sampling, Neutral: "0", Refused: noDRY},
	{Names: "--dry-base", Kind: Num, Group: Sampling, Ignored: noDRY},
	{Names: "--dry-allowed-length", Kind: Int, Group: Sampling, Ignored: noDRY},
	{Names: "--dry-penalty-last-n", Kind: Int, Group: Sampling, Ignored: noDRY},
	{Names: "--dry-sequence-breaker", Group: Sampling, Ignored: noDRY},
	{Names: "--adaptive-target", Kind: Num, Group: Sampling, Neutral: "<0", Refused: noAdaptive},
	{Names: "--adaptive-decay", Kind: Num, Group: Sampling, Ignored: noAdaptive},
	{Names: "--dynatemp-range", Kind: Num, Group: Sampling, Neutral: "0", Refused: noDynamic},
	{Names: "--dynatemp-exp", Kind: Num, Group: Sampling, Ignored: noDynamic},
	{Names: "--mirostat", Kind: Int, Group: Sampling, Neutral: "0", Refused: noMirostat},
	{Names: "--mirostat-lr", Kind: Num, Group: Sampling, Ignored: noMirostat},
	{Names: "--mirostat-ent", Kind: Num, Group: Sampling, Ignored: noMirostat},

	{Names: "--grammar", Group: Sampling, Refused: noGrammar},
	{Names: "--grammar-file", Group: Sampling, Refused: noGrammar},
	{Names: "-j --json-schema", Group: Sampling, Refused: noGrammar},
	{Names: "-jf --json-schema-file", Group: Sampling, Refused: noGrammar},
	{Names: "-bs --backend-sampling", Kind: Bare, Env: "LLAMA_ARG_BACKEND_SAMPLING", Group: Sampling, Ignored: noGPU},
}
