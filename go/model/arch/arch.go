// Package arch defines the architectures: which tensors each has, under which GGUF names
// and of which shapes, and which operations compute logits from tokens. There is one file
// for each; it builds a Program and has no state.
//
// Where the weights lie, and in what form, is decided by the caller: see Weights.
package arch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/kernel"
)

// An Arch is one architecture.
type Arch struct {
	Name   string // as general.architecture has it
	config func(k *keys)
	build  func(b *builder)
}

// archs is the supported architectures, in the order in which errors list them.
var archs = []Arch{
	llama, qwen2, qwen3, qwen3vl, gemma, gemma2, gemma3, gemma3n, gemma4, olmo2, phi2, stablelm, starcoder2, commandr, cohere2, granite,
	smollm3, arcee, ernie45, seedoss, glm4, exaone4, hunyuan, museglimmer, lfm2, qwen3moe, olmoe,
	qwen2moe, granitemoe, deepseek, deepseek2, dots1, glm4moe, bailingmoe2, ernie45moe, hunyuanmoe, minimaxm2, lfm2moe, gptoss,
	qwen2vl, qwen3vlmoe, internlm2, xverse, exaone, exaonemoe, qwen, orion, baichuan, gpt2, starcoder, falcon, gptneox, bloom, mpt,
	olmo, minicpm, minicpm3, afmoe, bailingmoe, dbrx,
	chatglm, plamo, plamo2, plamo3, mimo2, hyv3, hyv4, mellum, pangu, maincoder, jais2, deci,
	step35, laguna, spark25, talkie, chameleon, cogvlm, hrmText, bailingmoe3, dots3note, minimax01, minimaxm3, groveMoE,
	refact, codeshell, jais, openelm, arctic, plm, grok, smallthinker, cohere2moe, maple, graniteSWA, deepseekOCR, paddleocr, hunyuanVL, nanbeige,
	phi3, phimoe, mistral3, mistral4, llama4, apertus,
	qwen35, qwen35moe, qwen3next, qwen4exp, kimiLinear, kimiK3, deepseek32, deepseek4, glmDSA,
	mamba, mamba2, rwkv6, rwkv6qwen2, rwkv7, arwkv7, jamba, falconh1, granitehybrid, nemotron, nemotronh, nemotronhmoe, bitnet,
	llamaEmbed, bert, nomicBERT, nomicBERTMoE, jinaBERTv2, jinaBERTv3, modernBERT, eurobert, neoBERT, gemmaEmbedding, t5Encoder, t5,
}

// Lookup returns the architecture called name.
func Lookup(name string) (Arch, error) {
	if i := slices.IndexFunc(archs, func(a Arch) bool { return a.Name == name }); i >= 0 {
		return archs[i], nil
	}
	if why := missing[name]; why != "" {
		return Arch{}, fmt.Errorf("architecture %q is not supported: its models need %s", name, why)
	}
	if len(name) > 64 {
		name = name[:64] + "..."
	}
	return Arch{}, fmt.Errorf("architecture %q is not supported, supported are %s", name, strings.Join(Names(), " "))
}

// missing says, of architectures that people have files of, what these need and there is not yet.
var missing = map[string]string{
	"clip":             "a language model beside them: they turn images into its embeddings",
	"llada":            "generation by diffusion: they predict no next token",
	"llada-moe":        "generation by diffusion: they predict no next token",
	"dream":            "generation by diffusion: they predict no next token",
	"rnd1":             "generation by diffusion: they predict no next token",
	"eagle3":           "a model beside them, for which they draft tokens: give that by -m, and this file by -md",
	"dflash":           "a model beside them, for which they draft tokens: give that by -m, and this file by -md",
	"gemma4-assistant": "a model beside them, for which they draft tokens: give that by -m, and this file by -md",
	"gptj":             "files that others read: llama.cpp knows no more than their name",
	"graniteswitch":    "adapters that tokens switch on",
	"pockettts":        "a decoder of sound: they speak, and do not write",
	"qwen3tts":         "a decoder of sound: they speak, and do not write",
	"wavtokenizer-dec": "codes of sound, which they decode: they do not write",
}

// Names returns the names of all architectures.
func Names() []string {
	names := make([]string, len(archs))
	for i, a := range archs {
		names[i] = a.Name
	}
	return names
}

// Weights gives tensors by their GGUF names. Each method checks that the shape
// is the expected one; its error names the tensor. Data may be nil as long as it
// has no memory yet.
type Weights interface {
	// Has reports whether there is such a tensor.
	Has(name string) bool
	// Table returns a matrix whose rows are looked up, not multiplied.
	Table(name string, in, out int) (kernel.Matrix, error)
	// Matrix returns n matrices for products: one tensor of three dimensions,
	// or of two when n is 1.
	Matrix(name string, in, out, n int) (kernel.Matrix, error)
	// Stack returns matrices for products that are a tensor each.
	Stack(names []string, in, out int) (kernel.Matrix, error)
	// Part returns n rows, from number `from` on, of each of mats matrices of `of` rows.
	Part(name string, in, of, from, n, mats int) (kernel.Matrix, error)
	// Nth returns matrix i of the n that a tensor has.
	Nth(name string, in, out, n, i int) (kernel.Matrix, error)
	// Heads returns n rows, from number `from` on, of each of `heads` heads of `of` rows, as
	// one matrix, whose name is then HeadsName(name, from). n is a multiple of kernel.Panel.
	Heads(name string, in, of, from, n, heads int) (kernel.Matrix, error)
	// Transposed returns, of n rows from number `from` on of each of `heads` heads of `of` rows,
	// the transpose: `heads` matrices of `in` rows and n columns, as floats.
	Transposed(name string, in, of, from, n, heads int) (kernel.Matrix, error)
	// Vector returns floats, of a tensor of these dimensions, padded with zeros to
	// whole panels.
	Vector(name string, dims ...int) ([]float32, error)
	// Squares returns the mean squares of what the rows of a matrix for products make
	// of independent inputs of mean square 1 that a norm has multiplied, by the vector
	// of that name if it was asked for before. It is nil as long as there is no memory.
	Squares(name, norm string) ([]float64, error)
	// Floats returns memory for n floats that are computed from the weights, under a
	// name of the caller's. It is nil until one is known.
	Floats(name string, n int) []float32
	// Choice returns a row of n numbers from 0 to below one, for each of rows. It is nil as long as there is no memory.
	Choice(name string, n, rows, below int) ([]int32, error)
	// Rope returns the frequencies of r. See Rope.Freqs.
	Rope(r Rope) ([]float64, error)
}

// HeadsName names the matrix of Weights.Heads.
func HeadsName(name string, from int) string {
	return fmt.Sprintf("%s from row %d of each head", name, from)
}

// A Program is what a model computes: operations over numbered buffers.
type Program struct {
	Bufs    []kernel.BufSpec
	Groups  []kernel.Group // state of a sequence that the operations keep
	Begin   []kernel.Op    // once per batch: embedding, tables of rotations
	Encoder [][]kernel.Op  // what tokens of sources go through in place of the layers: see kernel.Batch
	Layers  [][]kernel.Op  // one list for each layer
	Outputs []Output       // outputs available for the tokens of a batch
	Next    *Next          // what drafts; nil unless Config.Drafts
}

// Blocks returns the operations of the layers, and of the block that drafts, if it is run: all that keep something of a
// position.
func (p *Program) Blocks() [][]kernel.Op {
	if p.Next == nil {
		return p.Layers
	}
	all := slices.Clip(p.Layers)
	for _, s := range p.Next.Steps {
		all = append(all, s.Step)
	}
	return all
}

// An Output is a named result of a Program: operations on the tokens for which it is
// requested, or on rows that are given, and the buffer that then has its rows.
type Output struct {
	Name  string
	Ops   []kernel.Op
	Given bool       // rows of NEmbd, in the buffer In
	In    kernel.Buf // of those
	Buf   kernel.Buf
	Width int
}

// The outputs that a program may have.
const (
	Logits  = "logits"  // a number for each token of the vocabulary
	Vectors = "vectors" // the last hidden state, normalised
	Scores  = "scores"  // of a classifier, given what was made of the vectors of a text's tokens
	Pooled  = "pooled"  // the vector of a text, given what was made of the vectors of its tokens
)

// A Tier is the types of keys and values that are From to To positions old: see kernel.Group. The first is of the youngest.
type Tier struct {
	KV       kernel.KVTypes
	From, To int // 0: none
}

// Build returns the program of a model of this architecture. Keys and values are stored
// in the types of kv, or, in layers that see every position, in those of tiers by age.
func (a Arch) Build(cfg *Config, w Weights, kv kernel.KVTypes, tiers ...Tier) (p *Program, err error) {
	defer stopped(&err)
	b := &builder{cfg: cfg, w: w, kv: kv, tiers: tiers, p: &Program{}, slots: map[slot]kernel.Buf{}, caches: map[int]kvCache{}}
	a.build(b)
	return b.p, nil
}
