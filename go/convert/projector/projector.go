// Package projector says what the encoders of pictures and sounds in checkpoints become: projectors, GGUF files of their
// own that go beside a text model. A kind of projector is a lang.Family in a file with the name of its first model. Names
// of tensors and keys are those of llama.cpp, which has "clip" as the architecture of all.
//
// Rules here have whole names: a # stands for the first number in a name, and for the same number on the right. Names are
// without what checkpoints put before them, see plain.
package projector

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// arch is the architecture of all projectors in GGUF.
const arch = "clip"

// families are all kinds of projectors. Their order has no effect.
var families = []lang.Family{
	qwen3vl, qwen2vl, qwen25vl, glm4v, gemma3, gemma4, gemma4unified, pixtral, llava, lightOnOCR, idefics3, internvl, lfm2,
	llama4, kimivl, kimik25, dotsOCR, paddleOCR, hunyuanVL, minicpmv, exaone45, janus,
	granite4Vision, dots3note, deepseekOCR, deepseekOCR2, cogvlm, resampler, glmEdge, nemotron, mimo, step3vl, youtuvl, phi4, museGlimmer, minimaxM3,
	qwen2audio, ultravox, voxtral, musicFlamingo, glmASR, meralion, qwen25omni, qwen3asr, qwen3omni,
	lfm2audio, graniteSpeech,
}

// refused says why projectors are not converted that files exist of.
var refused = map[string]string{
	"LlavaLlamaForCausalLM":   otherTower + ", or a folder beside it as in Yi-VL. Want LLaVA of llava-hf, or a file of the projector",
	"LlavaMistralForCausalLM": otherTower + ". Want LLaVA of llava-hf, or a file of the projector",
	"LlavaQwenForCausalLM":    otherTower + ". Want LLaVA of llava-hf, or a file of the projector",
	"MobileLlamaForCausalLM":  otherTower + ". Want a file of the projector",
}

// otherTower is a reason.
const otherTower = "its encoder of pictures is not in the checkpoint, but in another repository (mm_vision_tower)"

// Of returns the kind of a checkpoint's projector.
func Of(c *hf.Config) (*lang.Family, error) {
	names := c.Texts("architectures")
	if c.Err() != nil {
		return nil, c.Err()
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no architectures", c.Path())
	}
	for i := range families {
		f := &families[i]
		if !slices.Contains(strings.Fields(f.Names), names[0]) {
			continue
		}
		if f.Change != nil {
			f = f.Change(c, f)
		}
		if f.Rename == nil {
			own := *f
			own.Rename = func(_ *hf.Config, name string) string { return plain(name) }
			f = &own
		}
		return f, c.Err()
	}
	if why := refused[names[0]]; why != "" {
		return nil, fmt.Errorf("%s: %s is not converted: %s", c.Path(), names[0], why)
	}
	return nil, fmt.Errorf("%s: %.80q has no projector that is converted; want one of those that \"quern help convert\" "+
		"lists, such as Gemma3ForConditionalGeneration", c.Path(), names[0])
}

// Has reports whether a checkpoint has encoders of pictures or sounds that Of knows, by config.json alone.
func Has(c *hf.Config) bool {
	_, err := Of(c)
	return err == nil && slices.ContainsFunc([]string{"vision_config", "audio_config", "whisper_config", "speech_config", "encoder_config",
		"encoder"},
		func(name string) bool { return part(c, name) != nil })
}

// Known returns all names of architectures in config.json whose projectors can be converted.
func Known() []string {
	all := map[string]bool{}
	for _, f := range families {
		for name := range strings.FieldsSeq(f.Names) {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Parse reads the name of a tensor, as rules have it: the number of an expert behind that of its layer is a *.
func Parse(name string) lang.Source {
	s := lang.Source{Layer: -1, Expert: -1, Name: name}
	for at := 0; at < len(name); {
		end := strings.IndexByte(name[at:], '.')
		if end < 0 {
			end = len(name) - at
		}
		if n, ok := hf.Digits(name[at : at+end]); ok {
			s.Layer, s.Name = n, name[:at]+"#"+name[at+end:]
			const experts = ".experts."
			if i := strings.Index(s.Name, experts); i >= 0 {
				number, rest, _ := strings.Cut(s.Name[i+len(experts):], ".")
				if e, ok := hf.Digits(number); ok {
					s.Expert, s.Name = e, s.Name[:i+len(experts)]+"*."+rest
				}
			}
			break
		}
		at += end + 1
	}
	return s
}

// plain returns the name of a tensor without what only some checkpoints put before it; empty if it belongs to what makes
// sounds.
func plain(name string) string {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "thinker."), "model.")
	for _, p := range []string{"talker.", "token2wav.", "code2wav."} {
		if strings.HasPrefix(name, p) {
			return ""
		}
	}
	for _, p := range []struct{ was, is string }{
		{"vision_tower.vision_model.", "vision_tower."}, {"vision_model.", "vision_tower."},
		{"vision_encoder.", "vision_tower."}, {"vision_projection.", "multi_modal_projector."},
		{"vision_tower.head.", ""}, {"vision_tower.encoder.patch_embed.", "vision_tower.patch_embed."},
	} {
		if rest, ok := strings.CutPrefix(name, p.was); ok {
			if p.is == "" {
				return "" // of what other uses of the encoder need
			}
			name = p.is + rest
		}
	}
	return name
}
