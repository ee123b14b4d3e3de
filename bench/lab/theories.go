package main

// A theory is a row of docs/theories.md: an idea that the project set out with, or a part of one, and what became of it.
type theory struct {
	name, claim string
	// What decides: findings of experiments, the first of which gives the verdict of the row.
	sources []source
	// Or, where no experiment of the lab does, what is known, and how to repeat that.
	verdict, number, repeat string
	note                    string // what of it lives on, or what would decide
	built                   bool   // whether the code has it: what is not built is at most an option
}

// A source is a finding of an experiment.
type source struct{ lab, key string }

// The theories, in the order of the page. Numbers of bench/results are those of the pages that they lead to.
var theories = []theory{
	{name: "Block-streaming attention", claim: "keys and values are read in blocks, with a running softmax, so that long contexts need no matrix of scores",
		verdict: "adopted", number: "175 G multiply-adds/s a thread at depth 16,384, 137 at depth 0 (limit of the ports 275): [long prompts](../bench/results/2026-11-29-long-prompts.md)",
		repeat: "`quern bench --kernels -d 0,16384 -t 1`"},
	{name: "Temporal weight reuse, dual token", claim: "weights that were read are used for several tokens before the next are read",
		sources: []source{{"reuse", "reuse"}}, built: true},
	{name: "Pipeline-saturated pass", claim: "unpacking, products and loads overlap until the ports of a core are full",
		verdict: "adopted", number: "76 % of the 8-bit peak at 512 tokens of Q4_K (the ports allow 84 %): [products](../bench/results/2026-11-29-products.md)",
		repeat: "`quern bench --kernels --types q4_k -p 512 -t 1`"},
	{name: "Pre-computed weight schedule", claim: "what a pass reads is known before it begins, so it is asked for ahead of its use",
		verdict: "adopted", number: "up to 1.33 times as fast for one token (AVX2, Q4_K, four lanes of prefetches): [few tokens](../bench/results/2026-11-22-few-tokens.md)",
		repeat: "`QUERN_ISA=avx2 quern bench --kernels --types q4_k -p 1`"},
	{name: "DAG-compiled", claim: "the graph of a model is compiled once, not walked for each token",
		verdict: "adopted", number: "one call into C for a pass: [plans](architecture.md#plans); no experiment has a number for it",
		repeat: "`quern bench --profile`"},
	{name: "Asynchronous reads", claim: "io_uring keeps a disk busy while layers are computed",
		verdict: "adopted", number: "an 8B in 2.9 GB: 0.5 tokens/s, mapped 0.2: [streamed weights](../bench/results/2026-11-22-streamed.md)",
		repeat: "`quern run --weights streamed --memory 3G --stats -m FILE`"},
	{name: "Ring of layers", claim: "what does not stay passes through two buffers, one read while the other is used",
		verdict: "adopted", number: "an 8B in 2.0 GB: 0.4 tokens/s, 2.0 to 2.5 s a pass, where the disk needs 1.6 to 2.2: [streamed weights](../bench/results/2026-11-22-streamed.md)",
		repeat: "`quern run --weights streamed --memory 2G --stats -m FILE`"},
	{name: "Tiers of memory", claim: "weights, and keys and values, live in memory and on disk by how soon they are used",
		verdict: "adopted", number: "an 8B of 4.9 GB runs in 1.7 GB, with the same text: [streamed weights](../bench/results/2026-11-22-streamed.md)",
		repeat: "`quern doctor`, `quern run --weights streamed`", note: "a network as the last tier: see below"},
	{name: "Expert streaming", claim: "experts that a token will need are read before the router asks for them",
		verdict: "adopted", number: "79.9 % of 5,279 guesses right; a prompt in 11.4 s, without guesses 28.0: [guessed experts](../bench/results/2026-11-23-streamed.md)",
		repeat: "`quern run --weights streamed --memory 4.3G --stats -m MIXTURE`"},
	{name: "Keys and values in tiers by age", claim: "old positions are kept in fewer bits than recent ones",
		sources: []source{{"tiers", "tiers"}}, built: true, note: "summaries and fewer bits: see below"},
	{name: "Bits by sensitivity", claim: "tensors get bits by what their errors cost",
		verdict: "adopted", number: "0.43 to 0.91 of the divergence of Q4_K_M at its size, over six models: [types for a size](../bench/results/2026-11-23-target-bpw.md)",
		repeat: "`quern quantize --target-size SIZE -f TEXT`"},

	{name: "Lossless entropy coding", claim: "9B parameters in 3.6 GB without loss",
		sources: []source{{"entropy", "floats"}, {"entropy", "codes"}, {"rans", "rans"}, {"twelve", "twelve"}},
		note:    "coded codes are too slow to decode; what lives is BF16 in 12 bits of a fixed length: [weights in memory](memory.md#bf16-in-12-bits)"},
	{name: "Generative weight expansion", claim: "weights are made by a small generator at 2 bits",
		sources: []source{{"equal_bytes", "gwe"}},
		note:    "in another form it is in use: codes of the trellis types (IQ2_KT, IQ3_KT, IQ4_KT) are seeds of a generator. `quern quantize` makes them"},
	{name: "Adaptive sparse attention", claim: "a query needs few keys, which a part of their dimensions finds",
		sources: []source{{"sparse", "claim"}, {"sparse", "bounds"}},
		note:    "all tokens chose here, those of prompts too; generation alone: see pages of a budget, below"},
	{name: "Spectral + quantized residual", claim: "4 to 10 % of the rank hold 99 % of the energy; the rest needs 2 to 3 bits",
		sources: []source{{"spectrum", "rank"}, {"equal_bytes", "spectral"}, {"whitened", "spectral"}}},
	{name: "Weight residue across layers", claim: "layers stored as differences take 8 to 15 % less",
		sources: []source{{"layers", "residue"}}},
	{name: "Cross-layer sharing", claim: "neighbouring layers can share weights",
		sources: []source{{"sharing", "sharing"}}, note: "models that were trained so are run as they are"},
	{name: "Weight manifolds", claim: "a layer is a function of O(rows + columns) parameters",
		sources: []source{{"kronecker", "kronecker"}}},
	{name: "Dynamic requantization", claim: "each token reads as many bits of a weight as it needs",
		sources: []source{{"requantize", "requantize"}}, note: "where few columns have large activations, more bits for them, chosen once, are what helps"},
	{name: "Difficulty oracle (TDO)", claim: "the token's id says how many layers it needs",
		sources: []source{{"exits", "tdo"}}},
	{name: "Exit by magnitude (AMEE)", claim: "a token leaves where layers change it by little",
		sources: []source{{"exits", "amee"}}},
	{name: "Fractal networks", claim: "a dense layer is a mixture that a token needs little of",
		sources: []source{{"neurons", "fractal"}}, note: "mixtures that were trained so read only their experts"},
	{name: "Progressive loading", claim: "the first layers answer before the others are there",
		sources: []source{{"partial", "partial"}}, note: "a first pass does begin before the last layers are loaded, and waits for them"},
	{name: "Hyperthread helper (HAI)", claim: "a core's second hyperthread reads weights ahead of the first",
		sources: []source{{"smt", "helper"}}},
	{name: "Thermal-aware scheduling", claim: "fewer threads in time are faster than throttled ones",
		sources: []source{{"sustained", "sustained"}}},
	{name: "Landauer, energy", claim: "the energy of a token is far above the bound of physics, and can be scheduled for",
		sources: []source{{"energy", "energy"}}, note: "the bound decides nothing, 4e-7 J; joules a token are worth measuring"},
}

// Parts of theories, and what was found beside them.
var parts = []theory{
	{name: "Summary vectors", claim: "old keys and values are kept as means", sources: []source{{"old_kv", "summaries"}}},
	{name: "Keys and values in 3 bits", claim: "old positions need fewer than 4 bits", sources: []source{{"old_kv", "3 bits"}},
		note: "3.5 bits are 11 levels, two of them 7 bits. Of the toys some win, the demo half of the divergence"},
	{name: "Uneven levels of keys and values", claim: "after the rotation 4 bits should have the levels that are best for a Gaussian, not even ones", sources: []source{{"old_kv", "levels"}},
		note: "between half of the divergence, in the demo, and 1.2 times as much, in a toy with heads of 8 channels, at the same bytes"},
	{name: "Pages of a budget", claim: "after a prompt that was read in full, generation needs the pages of keys with the best bounds (Quest)",
		sources: []source{{"pages", "pages"}, {"pages", "again"}},
		note:    "what it would gain: [pages](../bench/results/2026-11-30-pages.md); whether an 8B with 32k positions loses less is not known"},
	{name: "Blocks of keys for prompts", claim: "a prompt needs few blocks of keys, which sums over antidiagonals of scores (XAttention), the keys and distances of its last queries (MInference), every 8th query or means of 8 find",
		sources: []source{{"prompts", "antidiagonals"}, {"prompts", "eighth"}, {"prompts", "means"}, {"prompts", "lines"}},
		note:    "built with every 8th query, as `--sparse-prompts`: [prompts](../bench/results/2026-11-30-prompts.md), [sparse prompts](../bench/results/2026-11-30-sparse-prompts.md)"},
	{name: "BF16 in 12 bits", claim: "lossless codes of a fixed length make generation of BF16 files faster",
		verdict: "adopted", number: "one token of a 1B of BF16: 1.23 times as fast, the same bits: [BF16 in 12 bits](../bench/results/2026-11-30-bf16-12bits.md)",
		repeat: "`check --bench=twelve`, `quern verify`"},
	{name: "Exit by confidence", claim: "a token leaves where the head is sure (CALM)", sources: []source{{"exits", "calm"}}},
	{name: "First layers as drafts", claim: "exact self-speculation (LayerSkip)", sources: []source{{"exits", "drafts"}},
		note: "files that were trained for it would decide otherwise"},
	{name: "Cleverer codes", claim: "codes of the same weights waste much", sources: []source{{"bound", "bound"}},
		note: "half a bit is left, which trellis codes are after: IQ2_KT is 0.30 bits above it on Gaussian weights, IQ4_KT 0.45 ([trellis types](../bench/results/2026-11-30-trellis.md))"},
	{name: "More bits for few activations", claim: "few of the activations carry the noise of rounding them to 8 bits, and 16 bits for those halve it for 2 % of the work",
		sources: []source{{"activations", "activations"}},
		note:    "blocks of 32 with outliers carry it, of all layers and kinds of inputs; whole models have 16 bits by --activations 16: [noise](../bench/results/2026-11-30-noise.md)"},
	{name: "A second plane for few blocks", claim: "1 to 3 % of blocks of 32 activations, chosen by what their errors cost, have a second plane of 8 bits, which halves the noise",
		sources: []source{{"planes", "planes"}},
		note:    "three choices of which the best is named, and 768 predictions: 1, 2 and 3 % are not in order with two of them, so the second digit is noise: [noise](../bench/results/2026-11-30-noise.md)"},
	{name: "AMX BF16 in fixed bits", claim: "tiles add in an order that every set can follow", sources: []source{{"amx", "order"}, {"amx", "vector"}},
		note: "on a Xeon with AMX, before the lab was here, 0 of 512,000 results of TDPBF16PS differed"},
	{name: "Low rank as recovery by training", claim: "adapters begin at the error of the codes (LoftQ)", sources: []source{{"loftq", "loftq"}},
		note: "two toys keep 12 and 13 % of the cost, BabyLlama105 and the demo 3.6 and 3.5 %, or a quarter of the steps. An adapter of quern finetune begins at nothing"},
	{name: "A network as a tier of memory", claim: "weights come from other machines for each token",
		verdict: "refuted", number: "computed, not measured: 4.9 GB over 1 Gbit/s are 39 s a token", repeat: "",
		note: "machines that share a pass by rows do work: [scale](scale.md)"},
}
