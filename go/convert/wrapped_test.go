package convert

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
)

// TestWrapped converts text models that are part of models with encoders, and compares them with those alone.
func TestWrapped(t *testing.T) {
	lfm2 := []string{"model.>model.language_model."}
	within := []string{"model.>language_model.model.", "lm_head.>language_model.lm_head."}
	for _, c := range []struct {
		name, of string // in config.json, and the archive of the text model
		part     string // that the text model's settings are in
		spelling []string
		extra    []string // tensors of the encoders
	}{
		{"SmolVLMForConditionalGeneration", "llama", "text_config", []string{"model.>model.text_model."},
			[]string{"model.connector.modality_projection.proj.weight", "model.vision_model.post_layernorm.weight"}},
		{"Idefics3ForConditionalGeneration", "llama", "text_config", []string{"model.>model.text_model."},
			[]string{"model.connector.modality_projection.proj.weight"}},
		{"InternVLChatModel", "qwen2", "llm_config", within, []string{"mlp1.0.weight", "vision_model.encoder.layers.0.ls1"}},
		{"InternVLForConditionalGeneration", "qwen3", "text_config", within,
			[]string{"multi_modal_projector.linear_1.weight", "vision_tower.embeddings.cls_token"}},
		{"LlavaForConditionalGeneration", "mistral", "text_config", within, []string{"multi_modal_projector.linear_1.weight"}},
		{"LightOnOCRForConditionalGeneration", "qwen3", "text_config", lfm2,
			[]string{"model.vision_projection.norm.weight", "model.vision_encoder.ln_pre.weight"}},
		{"Lfm2VlForConditionalGeneration", "lfm2", "text_config", lfm2,
			[]string{"model.multi_modal_projector.linear_1.weight", "model.vision_tower.vision_model.post_layernorm.weight"}},
		{"KimiVLForConditionalGeneration", "deepseek3", "text_config", within,
			[]string{"multi_modal_projector.pre_norm.weight", "vision_tower.patch_embed.pos_emb.weight"}},
		{"MiniCPMV4_6ForConditionalGeneration", "qwen35", "text_config", lfm2, []string{"model.merger.mlp.0.pre_norm.weight"}},
		{"Qwen2AudioForConditionalGeneration", "qwen2", "text_config", within, []string{"audio_tower.conv1.weight"}},
		{"VoxtralForConditionalGeneration", "llama", "text_config", within, []string{"audio_tower.embed_positions.weight"}},
		{"AudioFlamingo3ForConditionalGeneration", "qwen2", "text_config", within, []string{"audio_tower.layer_norm.weight"}},
		{"GraniteSpeechForConditionalGeneration", "granite", "text_config", within,
			[]string{"encoder.layers.0.ff1.up_proj.weight", "projector.query", "projector.linear.weight"}},
		{"Lfm2AudioForConditionalGeneration", "lfm2", "lfm", []string{"model.>lfm."},
			[]string{"conformer.layers.0.norm_out.weight", "audio_adapter.model.0.weight", "depthformer.layers.0.operator_norm.weight", "codebook_offsets"}},
		{"NemotronH_Nano_VL_V2", "nemotronh", "llm_config", []string{"backbone.>language_model.backbone.", "lm_head.>language_model.lm_head."},
			[]string{"mlp1.0.weight", "vision_model.radio_model.model.blocks.0.norm1.weight", "sound_projection.norm.weight"}},
		{"StepVLForConditionalGeneration", "qwen3", "text_config", nil, []string{"vit_large_projector.weight", "vision_model.ln_pre.weight"}},
		{"Sarashina2VisionForCausalLM", "llama", "text_config", []string{"model.>llm.model.", "lm_head.>llm.lm_head."},
			[]string{"norm.weight", "visual.merger.ln_q.weight"}},
		{"MERaLiON2ForConditionalGeneration", "gemma2", "text_config", []string{"model.>text_decoder.model."},
			[]string{"speech_encoder.layer_norm.weight", "ln_speech.weight", "speech_audio_adapter.gate_proj.weight"}},
		{"Phi4ForCausalLMV", "phi3", "", nil, []string{"model.vision_tower.vision_tower.vision_model.post_layernorm.weight", "model.mm_projector.0.weight"}},
		{"MiniCPMV", "llama", "", []string{"model.>llm.model.", "lm_head.>llm.lm_head."}, []string{"vpm.post_layernorm.weight", "resampler.query"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			text := readArchive(t, "testdata/transformers/"+c.of+".json")[0]
			written := func(x truth) *gguf.File {
				dir := t.TempDir()
				x.write(t, dir)
				save(t, dir, "tokenizer.json", anyTokenizer(272))
				save(t, dir, "tokenizer_config.json", `{"bos_token": "<s>", "eos_token": "</s>"}`)
				m, err := Open(dir, Options{Type: "f32", Threads: 1})
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				var b bytes.Buffer
				if _, err := m.Write(context.Background(), &b); err != nil {
					t.Fatal(err)
				}
				return must(gguf.Parse(b.Bytes()))
			}
			want := written(text)
			var settings map[string]any
			if err := json.Unmarshal(text.Config, &settings); err != nil {
				t.Fatal(err)
			}
			delete(settings, "architectures")
			whole := map[string]any{"architectures": []string{c.name}, "model_type": "whole", c.part: settings, "vision_config": map[string]any{}}
			if c.part == "" { // they are those of the whole
				whole = maps.Clone(settings)
				whole["architectures"], whole["model_type"] = []string{c.name}, map[string]string{"Phi4ForCausalLMV": "phi4-siglip"}[c.name]
			}
			if tie, has := settings["tie_word_embeddings"]; has {
				whole["tie_word_embeddings"] = tie
			}
			text.Config, text.spelling = must(json.Marshal(whole)), c.spelling
			for _, name := range c.extra {
				text.Tensors = append(slices.Clone(text.Tensors), name+" 4 4 1 0")
			}
			got := written(text)
			if len(got.Tensors) != len(want.Tensors) {
				t.Fatalf("%d tensors, want %d", len(got.Tensors), len(want.Tensors))
			}
			for i, tensor := range got.Tensors {
				if of := want.Tensors[i]; tensor.Name != of.Name || !bytes.Equal(tensor.Data, of.Data) {
					t.Errorf("%s, want %s with the same numbers", tensor.Name, of.Name)
				}
			}
			for _, key := range want.KVs {
				if value, ok := got.Value(key.Key); key.Key != "general.name" && (!ok || !equalValues(value, key.Value)) {
					t.Errorf("%s is %v, want %v", key.Key, value, key.Value)
				}
			}
		})
	}
}

func equalValues(a, b any) bool {
	return string(must(json.Marshal(a))) == string(must(json.Marshal(b)))
}
