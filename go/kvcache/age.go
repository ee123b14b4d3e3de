package kvcache

import (
	"fmt"
	"strconv"
	"strings"
)

// A Span is a number of positions and the types in which their keys and values are stored.
type Span struct {
	Positions int // this many and less behind the last; 0: all others
	Types
}

// Tiers are the types of keys and values by age, the youngest first. Whenever the sequence length reaches a
// multiple of the first tier's positions, blocks that have become too old for their tier are requantized to
// the types of the next. The first block of a sequence stays in the first tier.
type Tiers []Span

// MaxTiers is the maximum number of tiers.
const MaxTiers = 4

const tiersForm = "such as 256:i16,1024:q8_0,*:q4_0"

// ParseTiers parses tiers such as "256:i16,1024:q8_0,*:q4_0/q8_0": ascending positions, multiples of
// BlockTokens, and a type, or one for keys and one for values.
func ParseTiers(s string) (Tiers, error) {
	var all Tiers
	parts := strings.Split(s, ",")
	if len(parts) < 2 || len(parts) > MaxTiers {
		return nil, fmt.Errorf("%d tiers, want 2 to %d, %s", len(parts), MaxTiers, tiersForm)
	}
	for i, part := range parts {
		upTo, name, ok := strings.Cut(part, ":")
		if !ok {
			return nil, fmt.Errorf("tier %q, want positions and a type, %s", part, tiersForm)
		}
		var t Span
		var err error
		switch last := i == len(parts)-1; {
		case last && upTo != "*":
			return nil, fmt.Errorf("the last tier is of %q positions, want *: all others", upTo)
		case !last:
			const most = 1 << 28
			if t.Positions, err = strconv.Atoi(upTo); err != nil || t.Positions < BlockTokens || t.Positions > most || t.Positions%BlockTokens > 0 {
				return nil, fmt.Errorf("a tier of %q positions, want a multiple of %d", upTo, BlockTokens)
			}
			if i > 0 && t.Positions <= all[i-1].Positions {
				return nil, fmt.Errorf("a tier of %d positions after one of %d, want more", t.Positions, all[i-1].Positions)
			}
		}
		k, v, apart := strings.Cut(name, "/")
		if t.K, err = ParseType(k); err != nil {
			return nil, err
		}
		if t.V = t.K; apart {
			if t.V, err = ParseType(v); err != nil {
				return nil, err
			}
		}
		all = append(all, t)
	}
	return all, nil
}

// String returns the syntax that ParseTiers parses.
func (t Tiers) String() string {
	var parts []string
	for i, s := range t {
		upTo := "*"
		if i < len(t)-1 {
			upTo = strconv.Itoa(s.Positions)
		}
		parts = append(parts, upTo+":"+s.Types.String())
	}
	return strings.Join(parts, ",")
}

// An Aging is the move of blocks that have become too old for their groups: the blocks, and the units
// allocated for them in other groups. Until Done, the table refers to the old units.
type Aging struct {
	Blocks []AgedBlock
	table  *Table
}

// An AgedBlock is a block to be requantized into another group.
type AgedBlock struct {
	From, To int   // groups
	Old, New int32 // its units there
	block    int
}

// Age returns the blocks that must be requantized before the table grows, or nil if there are none. It fails
// as Grow does.
func (t *Table) Age() (*Aging, error) {
	p := t.pool
	if p.layout.Room(t.n, 1<<30) == 1<<30 || t.n == 0 || p.layout.Room(t.n-1, 2) == 2 {
		return nil, nil
	}
	a := &Aging{table: t}
	need := uint64(0)
	for to := range p.layout {
		g := &p.layout[to]
		if g.AgeFrom == 0 {
			continue
		}
		for k := range t.units[to] {
			if t.units[to][k] >= 0 || !g.sees(k, t.n+1) {
				continue
			}
			from := to - 1
			for t.units[from][k] < 0 {
				from-- // a younger one has it
			}
			need += uint64(g.Bytes)
			a.Blocks = append(a.Blocks, AgedBlock{From: from, To: to, Old: t.units[from][k], block: k})
		}
	}
	if len(a.Blocks) == 0 {
		return nil, nil
	}
	if err := t.reserve(0, need); err != nil {
		return nil, err
	}
	for i := range a.Blocks {
		b := &a.Blocks[i]
		b.New = p.take(b.To)
	}
	return a, nil
}

// Done records that the blocks were requantized, and frees the old units.
func (a *Aging) Done() {
	for _, b := range a.Blocks {
		old := &a.table.units[b.From][b.block]
		a.table.pool.drop(b.From, *old)
		*old = -1
		a.table.units[b.To][b.block] = b.New
	}
}
