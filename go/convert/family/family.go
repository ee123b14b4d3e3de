// Package family says what each architecture's checkpoints call their tensors and settings: a lang.Family in NAME.go
// for each file NAME.go of go/model/arch. What several families have in common is in common.go and the files whose
// names begin with it.
package family

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// families are all families, under the names of their architectures in go/model/arch. Their order has no effect: no two
// have a name in config.json in common.
var families = []lang.Family{
	llama, mistral, mistral3, hunyuan, hunyuanVL, arcee, smollm3, seedoss, ernie45, paddleocr, nanbeige, olmo, olmo2,
	commandr, cohere2, cohere2moe, exaone4, starcoder2, apertus, bitnet, maincoder, jais2, pangu, plamo3,
	museglimmer, qwen2, qwen2vl, qwen2moe, qwen3, qwen3moe, qwen3vl, qwen3vlmoe, qwen3next, qwen35, qwen35moe,
	gemma, gemma2, gemma3, gemmaEmbedding, gemma4, gemma3n, phi2, phi3, phimoe, granite, granitemoe, granitehybrid,
	graniteSWA, lfm2, lfm2moe, mamba, mamba2, nemotronh, jamba, falconh1, plamo2, rwkv6, rwkv6qwen2, rwkv7, arwkv7,
	deepseek, deepseekOCR, deepseek2, deepseek32, glmDSA, mistral4, minicpm3, kimiLinear, kimiK3, gptoss, glm4moe,
	olmoe, minimaxm2, dots1, ernie45moe, bailingmoe2, llama4, hunyuanmoe, hyv3, afmoe, bailingmoe, exaonemoe,
	mellum, mimo2, dbrx, internlm2, xverse, baichuan, orion, minicpm, qwen, exaone, starcoder, bloom, falcon, mpt,
	chatglm, stablelm, plamo, nemotron, deci, arctic, codeshell, jais, refact, openelm, plm, smallthinker, grok,
	chameleon, talkie, hrmText, dots3note, bailingmoe3, qwen4exp, deepseek4, hyv4, minimaxm3, groveMoE, spark25,
	laguna, cogvlm, maple, step35, minimax01, minimax, glm4, gptneox, gpt2, bert, xlmRoberta, nomicBERT, jinaBERTv2,
	llamaEmbed, modernBERT, eurobert, neoBERT, t5, t5Encoder, bart, mbart, pegasus, marian, whisper,
	flexOlmo, hyperclovax, olmoHybrid, phi4Multimodal, diffLlama, recurrentGemma, zamba2, jetmoe, longcat,
	opt, xglm, gptj, codegen, gptneo, glm, helium, persimmon, vaultgemma, nanochat, bamba,
	distilBERT, mpnet, electra, deberta, debertaV2,
}

// Of returns the family of a checkpoint.
func Of(c *hf.Config) (*lang.Family, error) {
	names := c.Texts("architectures")
	if c.Err() != nil {
		return nil, c.Err()
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no architectures", c.Path())
	}
	f := named(names[0])
	if f == nil {
		var err error
		if f, err = unwrap(c, names[0]); err != nil {
			return nil, err
		}
	}
	if f == nil {
		return nil, fmt.Errorf("%s: %.80q is not converted; want one of those that \"quern help convert\" lists, such as LlamaForCausalLM", c.Path(), names[0])
	}
	if f.Change != nil {
		f = f.Change(c, f)
	}
	return f, c.Err()
}

// named returns the family of a name in config.json, nil if none has it.
func named(name string) *lang.Family {
	for i := range families {
		if slices.Contains(strings.Fields(families[i].Names), name) {
			return &families[i]
		}
	}
	return nil
}

// Known returns all names of architectures in config.json that can be converted.
func Known() []string {
	all := map[string]bool{}
	for _, f := range families {
		for name := range strings.FieldsSeq(f.Names) {
			all[name] = true
		}
	}
	for _, w := range wrapped {
		for name := range strings.FieldsSeq(w.names) {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
