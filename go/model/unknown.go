package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/model/nn"
)

// inert lists prefixes and suffixes of tensors that do not affect the results: vision and audio towers,
// classifier heads, rotations that are computed instead, scales for 4-bit activations, and position biases of
// cross-attention, which uses none.
var inert = struct{ prefixes, suffixes []string }{
	[]string{"v.", "a.", "mm.", "cls.", "rope_freqs.", "rope_factors_"}, []string{".attn_rot_embd.weight", ".input_scale", ".cross_attn_rel_b.weight", ".exp_probs_b_vl.bias",
		".vis_attn_qkv.weight", ".vis_attn_output.weight", ".vis_gate.weight", ".vis_down.weight", ".vis_up.weight",
	},
}

// unknown returns an error for a tensor that the program does not use: its results would not be the model's.
func (w *weights) unknown(cfg *nn.Config) error {
	used := w.used()
	for _, t := range w.f.Tensors {
		if ofHead(t.Name) {
			if cfg.Drafts && !used[t.Name] {
				return fmt.Errorf("tensor %q of the head is none that %s heads have here: without it guesses would be wrong", strings.TrimPrefix(t.Name, nn.HeadPrefix), cfg.Head.Arch)
			}
			continue
		}
		if !used[t.Name] && !isInert(t.Name) && !isNext(t.Name, cfg) && !isShared(t.Name, cfg) && !isFirst(t.Name, cfg) {
			return fmt.Errorf("tensor %q is none that %s models have here: without it results would be wrong", t.Name, cfg.Arch)
		}
	}
	return nil
}

// used returns the names of the tensors that a program uses.
func (w *weights) used() map[string]bool {
	used := map[string]bool{}
	for _, m := range slices.Concat(w.mats, w.elsewhere) {
		for _, t := range m.parts {
			used[t.Name] = true
		}
	}
	for _, v := range w.vecs {
		used[v.t.Name] = true
	}
	for _, c := range w.choices {
		used[c.t.Name] = true
	}
	return used
}

func isInert(name string) bool {
	for _, p := range inert.prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	for _, s := range inert.suffixes {
		if strings.HasSuffix(name, s) {
			return true
		}
	}
	return false
}

// isNext reports whether a tensor belongs to an MTP layer.
func isNext(name string, cfg *nn.Config) bool {
	var il int
	n, _ := fmt.Sscanf(name, "blk.%d.", &il)
	return n == 1 && il >= len(cfg.Layers) && il < len(cfg.Layers)+cfg.NNext
}

// isShared reports whether a tensor is for keys and values of a layer that reuses another's.
func isShared(name string, cfg *nn.Config) bool {
	var il int
	n, _ := fmt.Sscanf(name, "blk.%d.", &il)
	if n != 1 || il < 0 || il >= len(cfg.Layers) || !cfg.Layers[il].SharedKV {
		return false
	}
	return slices.Contains([]string{"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"}, strings.TrimPrefix(name, fmt.Sprintf("blk.%d.", il)))
}

// isFirst reports whether a tensor mixes the first layer's value into the first layer itself, which some
// files of RWKV 7 have.
func isFirst(name string, cfg *nn.Config) bool {
	rest, ok := strings.CutPrefix(name, "blk.0.time_mix_v")
	return ok && cfg.RWKV.HeadDim > 0 && slices.Contains([]string{"0.weight", "1.weight", "2.weight"}, rest)
}
