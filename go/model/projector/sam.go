package projector

import (
	"fmt"
	"math"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	. "github.com/quern-llm/quern/go/model/nn"
)

// SAM's encoder (Kirillov et al. 2023, "Segment Anything") as DeepSeek-OCR has it: layers whose patches see those of a window, of
// which the last ones are filled with patches that are nothing, and some whose patches see all. Of its results convolutions make
// fewer, of half the side each.

// sam is what an encoder of pictures has in front of its own layers.
type sam struct {
	config Config
	window int
	side   int    // patches of a side of the pictures that it was trained on
	small  int    // of tiles
	whole  []bool // layers whose patches see all
	pos    [2][][]float32
}

// Names of its tensors.
const (
	samPatches   = "v.sam.patch_embd.weight"
	samPositions = "v.sam.pos_embd.weight"
)

// samKeys reads its keys, and of which size pictures and tiles are: so many eighths of their sides.
func (e *Encoder) samKeys(k *Keys, eighths int) {
	s := &e.sam
	s.config = *k.Config
	c := &s.config
	c.NEmbd, c.Norm, c.Eps = k.Int("sam.embedding_length", 1, MaxEmbd), kernel.LayerNorm, 1e-6
	heads := k.Int("sam.head_count", 1, MaxHead)
	if c.NEmbd%heads != 0 || c.NEmbd/heads > MaxHeadDim {
		k.Fail("sam.head_count", "%d, want a divisor of the width, %d, with heads of at most %d", heads, c.NEmbd, MaxHeadDim)
	}
	s.window = k.Int("window_size", 1, maxMerge*4)
	t, ok := e.file.Tensor(samPatches)
	if !ok || len(t.Dims) != 4 || t.Dims[0] != t.Dims[1] || t.Dims[0] < 1 || t.Dims[0] > maxPatch {
		k.Check(fmt.Errorf("tensor %q: missing, or not of square patches of up to %d pixels", samPatches, maxPatch))
	}
	e.Patch = int(t.Dims[0]) // keys are of a patch that CLIP had, and that is not read
	positions := e.table(k, samPositions, c.NEmbd)
	if s.side = positions.side(); s.side < 8 || s.side%8 != 0 {
		k.Check(fmt.Errorf("tensor %q: %d rows, want those of a square whose side is a multiple of 8", samPositions, positions.rows))
	}
	s.small = s.side / 8 * eighths
	e.Side = s.side * e.Patch
	n := c.NEmbd / heads
	c.Layers = make([]LayerConfig, k.Int("sam.block_count", 1, MaxLayer))
	for il := range c.Layers {
		c.Layers[il] = LayerConfig{NHead: heads, NHeadKV: heads, HeadDim: n, ValueDim: n, AttnScale: float32(1 / math.Sqrt(float64(n)))}
		name := fmt.Sprintf("v.sam.blk.%d.attn.pos_h.weight", il)
		t, ok := e.file.Tensor(name)
		if !ok || len(t.Dims) != 2 {
			k.Check(fmt.Errorf("tensor %q: missing, or no matrix", name))
		}
		s.whole = append(s.whole, t.Dims[1] != uint64(2*s.window-1))
	}
	s.pos = [2][][]float32{resampledSquare(positions, s.side), resampledSquare(positions, s.small)}
}

// resampledSquare returns the rows of a square table for one of another side.
func resampledSquare(t table, side int) (all [][]float32) {
	how := smoothCubics(t.side(), side)
	for i := range side * side {
		row := make([]float32, t.columns)
		t.addAt(row, how[i%side], how[i/side])
		all = append(all, row)
	}
	return all
}

// apart returns the embeddings of distances of a layer.
func (s *sam) apart(il int) Decomposed {
	d := Decomposed{Rows: [2]string{"attn.pos_h.weight", "attn.pos_w.weight"}, Side: s.window}
	sides := []int{s.window}
	if d.Masked = !s.whole[il]; s.whole[il] {
		d.Side, sides = s.side, []int{s.side, s.small}
	}
	d.Of = 2*d.Side - 1
	for _, side := range sides {
		n := 2*side - 1
		set := DistanceSet{Name: fmt.Sprintf("of %d", n)}
		for _, shares := range lines(d.Of, n) {
			by := make([]float64, d.Of)
			for _, one := range shares {
				by[one.from] += float64(one.by)
			}
			set.By = append(set.By, by)
		}
		d.Sets = append(d.Sets, set)
	}
	return d
}

// samLayers adds SAM's layers and convolutions, and returns what they make.
func (e *Encoder) samLayers(b *Builder) Strand {
	s := &e.sam
	c := &s.config
	b.Config = c
	b.Patches(e.patchColumns(), "", samPatches)
	b.Brought(e.patchColumns())
	b.BegunRows()
	for il, sizes := range c.Layers {
		d := s.apart(il)
		if il == 0 || s.whole[il] != s.whole[il-1] {
			b.Beside(1).Again(nil, func() {
				b.BroughtAlone()
				if d.Masked {
					b.BringMask(c.NEmbd)
				} else {
					b.BringSets(c.NEmbd, len(d.Sets))
				}
				b.TurnInPlane(d)
			})
		}
		b.RowLayer(fmt.Sprintf("v.sam.blk.%d.", il), sizes, func(l Layer) {
			l.DecomposedAttention("pre_ln", "attn.qkv", d, "attn.out")
			l.Feed("post_ln", "mlp.lin1", "mlp.lin2", kernel.GELUErf)
		})
	}
	if !s.whole[len(s.whole)-1] {
		b.Beside(1).Again(nil, nil)
	}
	made := b.Beside(1).Product("v.sam.neck.0").Norm(kernel.LayerNorm, "v.sam.neck.1")
	for _, name := range []string{"v.sam.neck.2", "v.sam.net_2", "v.sam.net_3"} {
		of, next := made.Width, *c
		next.NEmbd = made.Rows(name)
		made.Again(&next, func() { b.Unfolded(name, of, taps3x3) })
		if made = b.Beside(1); name == "v.sam.neck.2" {
			made = made.Norm(kernel.LayerNorm, "v.sam.neck.3")
		}
	}
	return made
}

// samInput returns the input of pictures of the size of tiles, or of the trained one, and the last of its runs, whose tokens are
// what the convolutions make of each picture in turn, of so many a side.
func (e *Encoder) samInput(pictures []*picture.RGB) (first, last *Input, side int) {
	s, c := &e.sam, &e.sam.config
	n := pictures[0].Width / e.Patch
	own := 0 // which set of distances is its own
	if n != s.side {
		own = 1
	}
	shade, per := e.shades(), n*n
	first = &Input{Tokens: per * len(pictures), Columns: e.patchColumns() + c.NEmbd}
	first.Row = func(dst []float32, i int) {
		at := i % per
		e.patch(dst, pictures[i/per], &shade, at%n, at/n)
		copy(dst[e.patchColumns():], s.pos[own][at])
	}
	last = first
	then := func(in *Input) { last.Again, last = in, in }
	across := (n + s.window - 1) / s.window
	within := s.window * s.window
	// patch returns which patch a place of a window is, and below 0 if it is behind the picture's side.
	patch := func(i int) int32 {
		w, j := i/within, i%within
		tile, w := w/(across*across), w%(across*across)
		x, y := w%across*s.window+j%s.window, w/across*s.window+j/s.window
		if x >= n || y >= n {
			return -1
		}
		return int32(tile*per + y*n + x)
	}
	windows := len(pictures) * across * across
	place := make([]int32, first.Tokens)
	for i := range windows * within {
		if at := patch(i); at >= 0 {
			place[at] = int32(i)
		}
	}
	at := func(i, side int) (p [kernel.Axes]int32) {
		p[Down], p[Across] = int32(i%(side*side)/side), int32(i%side)
		return p
	}
	for il, whole := range s.whole {
		switch {
		case il > 0 && whole == s.whole[il-1]:
		case whole:
			in := &Input{Tokens: first.Tokens, Columns: c.NEmbd + 2*kernel.Panel, Windows: windowsOf(first.Tokens, per)}
			in.Row = func(dst []float32, _ int) {
				clear(dst)
				dst[c.NEmbd+own*kernel.Panel] = 1
			}
			in.Place = func(i int) [kernel.Axes]int32 { return at(i, n) }
			if il > 0 {
				in.From = func(i int) []int32 { return place[i : i+1] }
			}
			then(in)
		default:
			in := &Input{Tokens: windows * within, Columns: c.NEmbd + 1, Windows: windowsOf(windows*within, within)}
			in.Place = func(i int) [kernel.Axes]int32 { return at(i, s.window) }
			in.From = func(i int) []int32 { return []int32{patch(i)} }
			in.Row = func(dst []float32, i int) {
				if clear(dst); patch(i) >= 0 {
					dst[c.NEmbd] = 1
				}
			}
			then(in)
		}
	}
	if !s.whole[len(s.whole)-1] {
		then(&Input{Tokens: first.Tokens, Columns: c.NEmbd, From: func(i int) []int32 { return place[i : i+1] }})
	}
	side = n
	for _, step := range []int{1, 2, 2} {
		before, near := side*side, neighbours(side, side, step)
		side = (side + step - 1) / step
		after := side * side
		then(&Input{Tokens: after * len(pictures), From: func(i int) []int32 {
			list := near(i % after)
			for j := range list {
				if list[j] >= 0 {
					list[j] += int32(i / after * before)
				}
			}
			return list
		}})
	}
	return first, last, side
}
