package llamaflags

const (
	aRow     = "each row is printed as soon as it is measured, with its test"
	byWeight = "--weights selects how weights are held in memory"
)

// bench are the flags of llama-bench that the other programs do not have, or have without a value.
var bench = []Row{
	{Names: "-oe --output-err", Group: Bench, Neutral: "none", Ignored: "results go only to standard output"},
	{Names: "--progress", Kind: Bare, Group: Bench, Ignored: aRow},
	{Names: "-v --verbose", Kind: Bare, Group: Bench, Ignored: aRow},
	{Names: "--delay", Kind: Int, Group: Bench, Neutral: "0", Ignored: "tests run without pauses"},
	{Names: "-C --cpu-mask", Group: Bench, Neutral: "0x0", Ignored: "threads run on the CPUs that the process may use; set these with taskset"},
	{Names: "-nkvo --no-kv-offload", Group: Bench, Neutral: "1", Ignored: noGPU},
	{Names: "-nopo --no-op-offload", Group: Bench, Neutral: "1", Ignored: noGPU},
	{Names: "--no-host", Group: Bench, Neutral: "0", Ignored: noGPU},
	{Names: "-mmp --mmap", Group: Bench, Becomes: map[string]string{"0": "weights=packed"}, Neutral: "1", Ignored: byWeight},
	{Names: "-dio --direct-io", Group: Bench, Neutral: "0", Ignored: byWeight},
	{Names: "-lm --load-mode", Group: Bench, Becomes: map[string]string{"auto": "weights=auto", "mmap": "weights=mapped", "none": "weights=packed", "dio": "weights=packed"}, Ignored: byWeight},
	{Names: "-embd --embeddings", Group: Bench, Neutral: "0", Refused: "prompts and generation are always measured; leave the flag out"},
}

// tools are the flags of llama-perplexity, llama-imatrix and llama-embedding that llama-server does not have, beside those that the
// commands define.
var tools = []Row{
	{Names: "--ppl-stride", Kind: Int, Group: Tools, Neutral: "<=0", Refused: "chunks do not overlap; leave the flag out"},
	{Names: "--ppl-output-type", Kind: Int, Group: Tools, Neutral: "0", Refused: "estimates are printed without it; leave the flag out"},
	{Names: "--no-ppl", Kind: Bare, Group: Tools, Ignored: "perplexity is not computed with the matrix"},
	{Names: "--attention", Group: Tools, Refused: "the attention mask follows from the model's file; leave the flag out"},
}
