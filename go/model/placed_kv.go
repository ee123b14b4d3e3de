package model

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/nn"
)

// KeptByHeads returns, for each group of a sequence's state, the bytes of its layers in a unit if these have nothing but keys
// and values there and each has a multiple of `places` of kv heads; nil for other groups. It may be divided among places
// then. Not divided are latents (MLA), which all query heads read and which are one kv head, keys that are chosen by,
// entries and recurrent state.
func (m *Model) KeptByHeads(places int) [][]int { return keptByHeads(m.program, places) }

func keptByHeads(p *nn.Program, places int) [][]int {
	layers := make([]map[int]int, len(p.Groups)) // bytes by offset
	whole := make([]bool, len(p.Groups))
	for i := range layers {
		layers[i] = map[int]int{}
	}
	for _, ops := range p.Lists() {
		for _, op := range ops {
			var h kernel.Heads
			switch o := op.(type) {
			case kernel.StoreKV:
				h = o.Heads
			case kernel.Attend:
				h = o.Heads
			case kernel.ChooseBlocks:
				h = o.Heads
			default:
				relocated(op, func(group, offset int) int {
					whole[group] = true
					return offset
				})
				continue
			}
			values := valueDim(h)
			if h.InKeys {
				values = 0
			}
			for _, t := range append([]kernel.Tier{{KV: h.KV, Group: h.Group, KVOffset: h.KVOffset}}, h.Tiers...) {
				layers[t.Group][t.KVOffset] = kernel.KVBytes(t.KV, h.NHeadKV, h.HeadDim, values)
				whole[t.Group] = whole[t.Group] || h.NHeadKV%places != 0
			}
			if a, ok := op.(kernel.Attend); ok && a.Entries.Every > 0 {
				whole[a.Entries.Group] = true
			}
		}
	}
	all := make([][]int, len(p.Groups))
	for i := range all {
		if !whole[i] {
			all[i] = sideBySide(layers[i], p.Groups[i].Bytes)
		}
	}
	return all
}

// sideBySide returns the sizes of what lies at these offsets of n bytes, one after the other; nil if something is between.
func sideBySide(at map[int]int, n int) (sizes []int) {
	end := 0
	for end < n {
		size := at[end]
		if size == 0 {
			return nil
		}
		sizes = append(sizes, size)
		end += size
	}
	return sizes
}
