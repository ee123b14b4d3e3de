package family

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// wrapped are models with encoders around the text model of another family, as names in config.json, with beginnings of the
// names of tensors that belong to the encoders, and which nothing else says of them. Package projector has the encoders.
var wrapped = []struct{ names, encoders string }{
	{"SmolVLMForConditionalGeneration Idefics3ForConditionalGeneration", "model.connector."},
	{"InternVLChatModel InternVLForConditionalGeneration InternS1ForConditionalGeneration", "mlp1."},
	{"LlavaForConditionalGeneration LlavaNextForConditionalGeneration", ""},
	{"LightOnOCRForConditionalGeneration LightOnOcrForConditionalGeneration", ""},
	{"KimiVLForConditionalGeneration KimiK25ForConditionalGeneration Lfm2VlForConditionalGeneration", ""},
	{"DotsOCRForCausalLM MiniCPMV4_6ForConditionalGeneration", "model.merger."},
	{"Qwen2AudioForConditionalGeneration VoxtralForConditionalGeneration", ""},
	{"AudioFlamingo3ForConditionalGeneration MusicFlamingoForConditionalGeneration", ""},
}

// kindsOfText are the families of text models inside others, by what config.json calls their type.
var kindsOfText = map[string]string{
	"llama": "LlamaForCausalLM", "vllama3": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "ministral3": "Ministral3ForCausalLM",
	"qwen2": "Qwen2ForCausalLM", "dots_ocr": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM",
	"qwen3_5_text": "Qwen3_5ForCausalLM", "lfm2": "Lfm2ForCausalLM", "lfm2_moe": "Lfm2MoeForCausalLM", "gpt_oss": "GptOssForCausalLM",
	"deepseek_v2": "DeepseekV2ForCausalLM", "deepseek_v3": "DeepseekV3ForCausalLM", "kimi_k2": "DeepseekV3ForCausalLM",
	"internlm2": "InternLM2ForCausalLM", "phi3": "Phi3ForCausalLM", "gemma2": "Gemma2ForCausalLM",
}

// unwrap returns the family of the text model inside a model with encoders, nil if the name is of no such model.
func unwrap(c *hf.Config, name string) (*lang.Family, error) {
	i := slices.IndexFunc(wrapped, func(w struct{ names, encoders string }) bool {
		return slices.Contains(strings.Fields(w.names), name)
	})
	if i < 0 {
		return nil, nil
	}
	kind := c.Text("model_type") // of the text model, which has replaced that of the whole
	f := named(kindsOfText[kind])
	for _, part := range []string{"text_config", "llm_config"} {
		text := c.Within(part)
		for _, own := range text.Texts("architectures") {
			if of := named(own); of != nil && f == nil {
				f = of
			}
		}
		c.Take(text)
	}
	if f == nil {
		return nil, fmt.Errorf("%s: %s around a text model of the type %.40q, which is not converted", c.Path(), name, kind)
	}
	own := *f
	own.Skip = slices.Concat(f.Skip, strings.Fields(wrapped[i].encoders))
	return &own, nil
}
