package model

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model/nn"
)

// Sparse says which keys prompts read.
type Sparse = nn.Sparse

// defaultFrom is where prompts begin to read fewer keys: before it, attention is little of their time.
const defaultFrom = 4096

// ParseSparse reads PART or PART:FROM, such as 0.95 or 0.95:8192; the empty string: prompts read all keys.
func ParseSparse(s string) (Sparse, error) {
	if s == "" {
		return Sparse{}, nil
	}
	part, from, has := strings.Cut(s, ":")
	v := Sparse{From: defaultFrom}
	p, err := strconv.ParseFloat(part, 32)
	if v.Part = float32(p); err != nil || !(v.Part > 0 && v.Part <= 1) {
		return v, fmt.Errorf("%q: want a part of the weight of keys, above 0 and up to 1, such as 0.95", s)
	}
	if has {
		if v.From, err = strconv.Atoi(from); err != nil || v.From < 0 || v.From > nn.MaxCtx || v.From%kvcache.BlockTokens != 0 {
			return v, fmt.Errorf("%q: %q is no position to begin at: want a multiple of %d, such as %d", s, from, kvcache.BlockTokens, defaultFrom)
		}
	}
	return v, nil
}

// Sparser returns a survey of the same model whose prompts read some of their keys. That is before Drafting and Split.
func (s *Survey) Sparser(how Sparse) (*Survey, error) {
	if s.Config.OnePass() {
		return nil, fmt.Errorf("%s reads a text as a whole: its prompts cannot be sparse", s.Config.Arch)
	}
	n, err := s.with(func(c *Config) { c.Sparse = how })
	if err != nil {
		return nil, err
	}
	if !n.finds[index(Packed)].program.Sparse {
		return nil, fmt.Errorf("no layer of %s could read fewer keys: those that read all have biases by distance, keys that are chosen, compressed or in tiers, or there are none", s.Config.Arch)
	}
	return n, nil
}
