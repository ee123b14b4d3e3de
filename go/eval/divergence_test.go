package eval_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/eval"
)

// A random model has logits that depend on the tokens so far, and on a seed.
type random struct {
	seed   uint64
	vocab  int
	spread float32
	ids    []int32
}

func (r *random) Eval(_ context.Context, ids []int32, from int, visit func(int, []float32) error) error {
	for i, id := range ids {
		r.ids = append(r.ids, id)
		if i < from {
			continue
		}
		if err := visit(i, r.logits(len(r.ids))); err != nil {
			return err
		}
	}
	return nil
}

// logits are those after n tokens.
func (r *random) logits(n int) []float32 {
	h := uint64(n)
	for _, id := range r.ids[:n] {
		h = h*31 + uint64(id)
	}
	base, own := rand.New(rand.NewPCG(h, 0)), rand.New(rand.NewPCG(h, r.seed))
	row := make([]float32, r.vocab)
	for i := range row {
		row[i] = 2*float32(base.NormFloat64()) + r.spread*float32(own.NormFloat64())
	}
	return row
}

func (r *random) Fork() eval.Text {
	f := *r
	f.ids = append([]int32(nil), r.ids...)
	return &f
}

func (*random) Close() {}

func newRandom(seed uint64, vocab int, spread float32) eval.Model {
	return func() eval.Text { return &random{seed: seed, vocab: vocab, spread: spread} }
}

func randomIDs(n, vocab int) []int32 {
	r := rand.New(rand.NewPCG(1, 2))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = r.Int32N(int32(vocab))
	}
	return ids
}

// exact computes a mean divergence by its definition.
func exact(t *testing.T, a, b eval.Model, ids []int32, ctx int) (kld, same float64) {
	t.Helper()
	softmax := func(row []float32) []float64 {
		sum, p := 0.0, make([]float64, len(row))
		for i, l := range row {
			p[i] = math.Exp(float64(l))
			sum += p[i]
		}
		for i := range p {
			p[i] /= sum
		}
		return p
	}
	rows := func(m eval.Model) (all [][]float64) {
		for at := 0; at+ctx <= len(ids); at += ctx {
			if err := m().Eval(t.Context(), ids[at:at+ctx-1], ctx/2, func(_ int, row []float32) error {
				all = append(all, softmax(row))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		return all
	}
	top := func(p []float64) (best int) {
		for i := range p {
			if p[i] > p[best] {
				best = i
			}
		}
		return best
	}
	p, q := rows(a), rows(b)
	for i := range p {
		for k := range p[i] {
			kld += p[i][k] * math.Log(p[i][k]/q[i][k])
		}
		if top(p[i]) == top(q[i]) {
			same++
		}
	}
	return kld / float64(len(p)), same / float64(len(p))
}

func TestCompare(t *testing.T) {
	const vocab, ctx = 37, 20
	ids := randomIDs(6*ctx+3, vocab)
	a, b := newRandom(1, vocab, 0.3), newRandom(2, vocab, 0.3)
	wantKLD, wantSame := exact(t, a, b, ids[:6*ctx], ctx)
	for _, room := range []int{1, 3, 50} {
		got, err := eval.Compare(t.Context(), a, []eval.Model{b, a}, ids, eval.Chunks{Ctx: ctx}, vocab, make([]float32, 2*room*vocab), func(*eval.Comparison) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		s, self := got.Others[0].Summary(), got.Others[1].Summary()
		if math.Abs(s.KLD.Value-wantKLD) > 1e-9 || math.Abs(s.SameToken.Value-wantSame) > 1e-12 || s.Tokens != 6*9 {
			t.Errorf("room %d: KLD %v, same %v of %d; want %v, %v", room, s.KLD.Value, s.SameToken.Value, s.Tokens, wantKLD, wantSame)
		}
		if self.KLD.Value != 0 || self.SameToken.Value != 1 || self.Ratio.Value != 1 || self.DiffRMS.Value != 0 {
			t.Errorf("a model differs from itself: %+v", self)
		}
		est, err := eval.Perplexity(t.Context(), b, ids, eval.Chunks{Ctx: ctx}, nil, ignore)
		if err != nil || math.Abs(est.PPL/s.PPL.Value-1) > 1e-12 || math.Abs(est.StdErr/s.PPL.StdErr-1) > 1e-9 {
			t.Errorf("perplexity %v, %v; want %v", s.PPL, err, est)
		}
		var svg strings.Builder
		if n, err := eval.Plot(&svg, "a <title>", []string{"b", "itself"}, got.Others); err != nil || int(n) != svg.Len() ||
			!strings.Contains(svg.String(), "a &lt;title>") && !strings.Contains(svg.String(), "a &lt;title&gt;") || strings.Contains(svg.String(), "NaN") {
			t.Errorf("plot: %v\n%s", err, svg.String())
		}
		if !strings.Contains(svg.String(), ">0.001</text>") || regexp.MustCompile(`>1e[+-]|"white"`).MatchString(svg.String()) {
			t.Errorf("the numbers are no decimal ones, or the picture is for light pages only:\n%s", svg.String())
		}
	}
	if _, err := eval.Compare(t.Context(), a, []eval.Model{newRandom(1, 5, 1)}, ids, eval.Chunks{Ctx: ctx}, vocab, make([]float32, 2*vocab), nil); err == nil ||
		!strings.Contains(err.Error(), "a vocabulary of 5, that of the base is 37") {
		t.Errorf("another vocabulary: %v", err)
	}
}

// saved returns what Perplexity saves of a model.
func saved(t *testing.T, m eval.Model, ids []int32, c eval.Chunks, vocab int) []byte {
	t.Helper()
	var b bytes.Buffer
	chunks, err := c.Count(len(ids))
	if err != nil {
		t.Fatal(err)
	}
	w, err := eval.NewLogitsWriter(&b, ids, c, chunks, vocab)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := eval.Perplexity(t.Context(), m, ids, c, w.Add, ignore); err != nil {
		t.Fatal(err)
	}
	n, err := w.Close()
	if err != nil || n != int64(b.Len()) || uint64(n) != eval.LogitsBytes(c, chunks, vocab) {
		t.Fatalf("%d bytes, %d said, want %d; %v", b.Len(), n, eval.LogitsBytes(c, chunks, vocab), err)
	}
	return b.Bytes()
}

func diverge(t *testing.T, file []byte, m eval.Model, c eval.Chunks) (eval.Summary, error) {
	t.Helper()
	l, err := eval.ReadLogits(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return eval.Summary{}, err
	}
	d, err := l.Divergence(t.Context(), m, c, func(int, *eval.Divergence) error { return nil })
	if err != nil {
		return eval.Summary{}, err
	}
	return d.Summary(), nil
}

// What is saved has 16 bits for 16 nats at most, so a divergence is off by some of their steps.
func TestDivergenceFromFile(t *testing.T) {
	for _, vocab := range []int{36, 37} { // rows are of an even number
		const ctx = 20
		c := eval.Chunks{Ctx: ctx, BOS: 1, AddBOS: true}
		ids := randomIDs(5*ctx, vocab)
		a, b := newRandom(1, vocab, 0.3), newRandom(2, vocab, 0.3)
		file := saved(t, a, ids, c, vocab)
		s, err := diverge(t, file, b, c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := eval.Compare(t.Context(), a, []eval.Model{b}, ids, c, vocab, make([]float32, 64*vocab), func(*eval.Comparison) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		want := got.Others[0].Summary()
		if math.Abs(s.KLD.Value-want.KLD.Value) > 1e-4 || math.Abs(s.Ratio.Value-want.Ratio.Value) > 1e-4 || s.SameToken != want.SameToken {
			t.Errorf("%+v\nwant %+v", s, want)
		}
	}
}

// The bytes of a row by hand: two tokens with logits 2 and 1, and one too far away to be told from others.
func TestLogitsFile(t *testing.T) {
	w := &bytes.Buffer{}
	l, err := eval.NewLogitsWriter(w, []int32{0, 1, 2, 0, 1, 2, 7}, eval.Chunks{Ctx: 6}, 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Add([]float32{2, 1, -30}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Close(); err != nil {
		t.Fatal(err)
	}
	b := w.Bytes()
	if string(b[:8]) != "_logits_" || len(b) != 8+12+6*4+8+8 {
		t.Fatalf("%d bytes: %q", len(b), b)
	}
	for i, want := range []uint32{6, 3, 1, 0, 1, 2, 0, 1, 2} {
		if got := binary.LittleEndian.Uint32(b[8+4*i:]); got != want {
			t.Errorf("field %d is %d, want %d", i, got, want)
		}
	}
	row := b[8+12+6*4:]
	scale, least := math.Float32frombits(binary.LittleEndian.Uint32(row)), math.Float32frombits(binary.LittleEndian.Uint32(row[4:]))
	sum := math.Log(math.Exp(2) + math.Exp(1) + math.Exp(-30))
	if scale != float32(16)/65535 || math.Abs(float64(least)-(-14-sum)) > 1e-6 {
		t.Errorf("scale %v, least %v", scale, least)
	}
	for i, want := range []uint16{65535, 61439, 0} { // 15/16 of 65535
		if got := binary.LittleEndian.Uint16(row[8+2*i:]); got != want {
			t.Errorf("q of token %d is %d, want %d", i, got, want)
		}
	}
}

func TestDamagedLogits(t *testing.T) {
	const vocab, ctx = 10, 8
	c := eval.Chunks{Ctx: ctx}
	m := newRandom(1, vocab, 1)
	good := saved(t, m, randomIDs(3*ctx, vocab), c, vocab)
	at := func(i int, v uint32) []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint32(b[i:], v)
		return b
	}
	nan := math.Float32bits(float32(math.NaN()))
	for name, tt := range map[string]struct {
		file []byte
		want string
	}{
		"empty":       {nil, "not a file of logits"},
		"other":       {[]byte("GGUF    and what follows"), "not a file of logits"},
		"cut":         {good[:len(good)-1], "not whole"},
		"long":        {append(bytes.Clone(good), 0), "not whole"},
		"context":     {at(8, 1<<30), "damaged"},
		"vocabulary":  {at(12, 1<<31), "damaged"},
		"chunks":      {at(16, 1<<30), "not whole"},
		"none":        {at(16, 0), "damaged"},
		"token":       {at(20, vocab), "outside the vocabulary"},
		"scale":       {at(20+4*3*ctx, nan), "not finite"},
		"other model": {good, ""},
	} {
		_, err := diverge(t, tt.file, m, c)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func TestImpossibleTokens(t *testing.T) {
	var d eval.Divergence
	inf := float32(math.Inf(-1))
	if err := d.Add([]float32{0, 0, inf}, math.Ln2, eval.Exact, []float32{0, 0, inf}, 1); err != nil {
		t.Errorf("a token that both hold impossible: %v", err)
	}
	if err := d.Add([]float32{0, 0}, math.Ln2, eval.Exact, []float32{0, inf}, 0); err == nil || !strings.Contains(err.Error(), "impossible") {
		t.Errorf("a token that one holds impossible: %v", err)
	}
}
