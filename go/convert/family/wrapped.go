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
	{"GraniteSpeechForConditionalGeneration GraniteSpeechPlusForConditionalGeneration", "encoder. projector."},
	{"Lfm2AudioForConditionalGeneration", "conformer. codebook_offsets depth_embeddings. depth_linear. depthformer."},
	{"NemotronH_Nano_VL_V2 NemotronH_Nano_Omni_Reasoning_V3", "mlp1. sound_encoder. sound_projection."},
	{"StepVLForConditionalGeneration", "vit_large_projector."},
	{"Phi4ForCausalLMV", ""},
	{"Sarashina2VisionForCausalLM", "norm."},
	{"MERaLiON2ForConditionalGeneration", "speech_encoder. speech_audio_adapter. ln_speech."},
	{"MiniCPMV MiniCPMO", "vpm. apm. tts. audio_projection_layer."},
}

// kindsOfText are the families of text models inside others, by what config.json calls their type.
var kindsOfText = map[string]string{
	"llama": "LlamaForCausalLM", "vllama3": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "ministral3": "Ministral3ForCausalLM",
	"qwen2": "Qwen2ForCausalLM", "dots_ocr": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM",
	"qwen3_5_text": "Qwen3_5ForCausalLM", "lfm2": "Lfm2ForCausalLM", "lfm2_moe": "Lfm2MoeForCausalLM", "gpt_oss": "GptOssForCausalLM",
	"deepseek_v2": "DeepseekV2ForCausalLM", "deepseek_v3": "DeepseekV3ForCausalLM", "kimi_k2": "DeepseekV3ForCausalLM",
	"internlm2": "InternLM2ForCausalLM", "phi3": "Phi3ForCausalLM", "gemma2": "Gemma2ForCausalLM", "granite": "GraniteForCausalLM",
	"nemotron_h": "NemotronHForCausalLM", "phi4-siglip": "Phi3ForCausalLM",
}

// minicpmText are the text models of MiniCPM-V and -o, which have no type of their own, by their versions. Config.json of 2.5 says none.
var minicpmText = map[string]string{"": "LlamaForCausalLM", "2.5": "LlamaForCausalLM", "2.6": "Qwen2ForCausalLM", "4.5": "Qwen3ForCausalLM"}

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
	if strings.HasPrefix(name, "MiniCPM") && f == nil {
		switch version := c.Value("version").(type) {
		case string:
			kind = version
		case float64:
			kind = fmt.Sprintf("%.1f", version)
		default:
			kind = ""
		}
		f = named(minicpmText[kind])
		kind = "that version " + kind + " has"
	}
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
