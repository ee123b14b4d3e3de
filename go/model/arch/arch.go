// Package arch defines the architectures: the metadata keys that each reads, which tensors it has, under which GGUF
// names and of which shapes, and which operations compute logits from tokens. There is one file for each architecture,
// named after it.
//
// An architecture is two functions in the words of package nn: config reads the keys of a file into a configuration,
// and build adds the operations of the layers. It has no state, and does not know where weights are stored.
//
// The words are imported with a dot: these files are descriptions in a small language, of which every second word would
// otherwise begin with the name of its package. staticcheck.conf allows that for this one package.
//
// The tests of the architectures are in go/model. TestArchitectures compares the logits and the text of a small model
// of each with those of another implementation, TestPublished reads the keys and tensors of published models. Here are
// tests of what is refused, and of scaled rotations.
package arch

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// An Arch is one architecture.
type Arch struct {
	Name   string // as general.architecture has it
	config func(k *Keys)
	build  func(b *Builder)
}

// archs is the supported architectures, in the order in which errors list them.
var archs = []Arch{
	llama, qwen2, qwen3, qwen3vl, gemma, gemma2, gemma3, gemma3n, gemma4, olmo2, phi2, stablelm, starcoder2, commandr,
	cohere2, granite,
	smollm3, arcee, ernie45, seedoss, glm4, exaone4, hunyuan, museglimmer, lfm2, qwen3moe, olmoe,
	qwen2moe, granitemoe, deepseek, deepseek2, dots1, glm4moe, bailingmoe2, ernie45moe, hunyuanmoe, minimaxm2, lfm2moe,
	gptoss,
	qwen2vl, qwen3vlmoe, internlm2, xverse, exaone, exaonemoe, qwen, orion, baichuan, gpt2, starcoder, falcon, gptneox,
	bloom, mpt,
	olmo, minicpm, minicpm3, afmoe, bailingmoe, dbrx,
	chatglm, plamo, plamo2, plamo3, mimo2, hyv3, hyv4, mellum, pangu, maincoder, jais2, deci,
	step35, laguna, spark25, talkie, chameleon, cogvlm, hrmText, bailingmoe3, dots3note, minimax01, minimaxm3, groveMoE,
	opt, gptj, gptneo, persimmon, vaultgemma, nanochat,
	refact, codeshell, jais, openelm, arctic, plm, grok, smallthinker, cohere2moe, maple, graniteSWA, deepseekOCR,
	paddleocr, hunyuanVL, nanbeige,
	phi3, phimoe, mistral3, mistral4, llama4, apertus,
	qwen35, qwen35moe, qwen3next, qwen4exp, kimiLinear, kimiK3, deepseek32, deepseek4, glmDSA,
	mamba, mamba2, rwkv6, rwkv6qwen2, rwkv7, arwkv7, jamba, falconh1, granitehybrid, nemotron, nemotronh, nemotronhmoe,
	bitnet,
	llamaEmbed, bert, nomicBERT, nomicBERTMoE, jinaBERTv2, jinaBERTv3, modernBERT, eurobert, neoBERT, gemmaEmbedding,
	t5Encoder, t5, mpnet, electra, deberta,
	bart, mbart, pegasus, marian, whisper,
	flexOlmo, hyperclovax, olmoHybrid, diffLlama, recurrentGemma, zamba2, jetmoe, longcat,
}

// Lookup returns the architecture called name.
func Lookup(name string) (Arch, error) {
	if i := slices.IndexFunc(archs, func(a Arch) bool { return a.Name == name }); i >= 0 {
		return archs[i], nil
	}
	if why := unsupported[name]; why != "" {
		return Arch{}, fmt.Errorf("architecture %q is not supported: %s", name, why)
	}
	if len(name) > 64 {
		name = name[:64] + "..."
	}
	return Arch{}, fmt.Errorf("architecture %q is not supported, supported are %s", name, strings.Join(Names(), " "))
}

// unsupported says, of architectures that people have files of, why they do not run here.
var unsupported = map[string]string{
	"clip":             "its files turn images into embeddings for a language model; give that model",
	"llada":            "it generates by diffusion and does not predict the next token",
	"llada-moe":        "it generates by diffusion and does not predict the next token",
	"dream":            "it generates by diffusion and does not predict the next token",
	"rnd1":             "it generates by diffusion and does not predict the next token",
	"eagle3":           drafter,
	"dflash":           drafter,
	"gemma4-assistant": drafter,
	"graniteswitch":    "its tokens switch adapters on and off",
	"pockettts":        speech,
	"qwen3tts":         speech,
	"wavtokenizer-dec": "its files decode audio tokens, and generate no text",
}

const (
	drafter = "it drafts tokens for another model; give that model with -m, and this file with -md"
	speech  = "it generates speech, not text"
)

// Names returns the names of all architectures.
func Names() []string {
	names := make([]string, len(archs))
	for i, a := range archs {
		names[i] = a.Name
	}
	return names
}

// Build returns the program of a model of this architecture. Keys and values are stored
// in the types of kv, or, in layers that see every position, in those of tiers by age.
func (a Arch) Build(cfg *Config, w Weights, kv kernel.KVTypes, tiers ...Tier) (*Program, error) {
	var head func(b *Builder, h *Head)
	if kind, ok := headKindOf(cfg.Head.Arch); ok {
		head = kind.build
	}
	return Build(cfg, w, kv, tiers, a.build, head)
}

// ReadConfig returns the configuration of a file, whose keys its architecture reads. Errors name the key.
func ReadConfig(f *gguf.File) (*Config, error) {
	switch kind, _ := f.Str("general.type"); kind {
	case "adapter":
		return nil, errors.New("it is a LoRA adapter and no model; give its model, and this file with --lora")
	case "imatrix":
		return nil, errors.New("it is an importance matrix and no model; \"quern quantize\" takes it with --imatrix")
	}
	name, err := f.Str("general.architecture")
	if err != nil {
		return nil, err
	}
	a, err := Lookup(name)
	if err != nil {
		return nil, err
	}
	return ReadKeys(f, name, a.config)
}
