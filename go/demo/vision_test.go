package demo_test

import (
	"crypto/sha256"
	"image"
	"image/draw"
	"strings"
	"testing"
	"unsafe"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/projector"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/tokenizer"
)

// The model that names what is in a picture is small, and its projector is made for it. Both lie in the program as well as
// in a file that is mapped.
func TestVisionFiles(t *testing.T) {
	text, eyes := demo.File(demo.Vision), demo.Projector(demo.Vision)
	if n := len(text) + len(eyes); n > 1_200_000 {
		t.Errorf("%d bytes, want at most 1.2 MB", n)
	}
	for _, b := range [][]byte{text, eyes} {
		if at := uintptr(unsafe.Pointer(unsafe.SliceData(b))); at%32 != 0 {
			t.Errorf("it is at %#x, which is no multiple of 32", at)
		}
	}
	f, err := gguf.Parse(eyes)
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.Projector()
	if err != nil {
		t.Fatal(err)
	}
	f, err = gguf.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if width, err := f.Uint("gemma3.embedding_length"); err != nil || width != p.Width || p.Vision != "gemma3" {
		t.Errorf("%s, for a model of %d columns, %v", p, width, err)
	}
	tok, err := tokenizer.New(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"A red circle.", "What colour is it?", "é \xff 🦙\n"} {
		comesBack(t, tok, text)
	}
	if demo.Projector(demo.Name) != nil {
		t.Error("the model that tells stories has a projector")
	}
}

// A viewer is the model with its encoder.
type viewer struct {
	*engine.Engine
	tok *tokenizer.Tokenizer
}

func newViewer(t *testing.T) viewer {
	t.Helper()
	text, err := model.OpenBytes(demo.Vision, demo.File(demo.Vision))
	if err != nil {
		t.Fatal(err)
	}
	eyes, err := model.OpenBytes(demo.Vision, demo.Projector(demo.Vision))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(text.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	d, err := engine.NewDevice(engine.DeviceConfig{Threads: 2, Budget: mem.NewBudget(1<<30, "test")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	e, err := engine.New(text, engine.Config{Device: d, Ctx: 128, Media: &engine.Media{Projector: eyes}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return viewer{e, tok}
}

// asked returns what the model says of a picture to a question, which may be empty.
func (v viewer) asked(t *testing.T, im *image.RGBA, question string) string {
	t.Helper()
	p := &picture.RGB{Width: im.Rect.Dx(), Height: im.Rect.Dy()}
	for i := 0; i < len(im.Pix); i += 4 {
		p.Pix = append(p.Pix, im.Pix[i:i+3]...)
	}
	prompt := encode(v.tok, "<|begin|><|user|>")
	var media []engine.Medium
	eyes := v.Projector(projector.Sight)
	for _, part := range eyes.See(p) {
		if part.Input == nil {
			prompt = append(prompt, v.tok.Encode(part.Text, tokenizer.Options{ParseSpecial: true, NoSpecial: true})...)
			continue
		}
		m := engine.Medium{At: len(prompt), Tokens: part.Input.Rows(), Hash: sha256.Sum256(p.Pix), BothWays: eyes.BothWays(), Sense: projector.Sight, Input: part.Input}
		media = append(media, m)
		for range m.Tokens {
			prompt = append(prompt, -1)
		}
	}
	prompt = append(prompt, v.tok.Encode(question+"<|end|><|assistant|>", tokenizer.Options{ParseSpecial: true, NoSpecial: true})...)
	g := generate.Params{Prompt: prompt, MaxTokens: 24, Sampling: sample.Defaults(), Stop: v.tok.IsEOG, TopLogprobs: -1}
	g.Sampling.Temp = 0
	s := v.NewSequence()
	defer s.Close()
	var said []int32
	if _, err := v.Generate(t.Context(), s, g, func(id int32) error { said = append(said, id); return nil }, media...); err != nil {
		t.Fatal(err)
	}
	return v.tok.Detokenize(said, false)
}

// It says what is in pictures that were drawn by other code and with other fonts than those that it learned from.
func TestSees(t *testing.T) {
	const n, least = 120, 102
	v, p := newViewer(t), newPencil(t, 1)
	right, named, things := 0, 0, 0
	for range n {
		im, figures, want := p.picture(t)
		got := v.asked(t, im, "What is this?")
		if got == want {
			right++
		} else {
			t.Logf("%q, want %q", got, want)
		}
		for _, f := range figures {
			things++
			if strings.Contains(strings.ToLower(got), strings.ToLower(f.String()[2:])) {
				named++
			}
		}
	}
	t.Logf("%d of %d pictures, %d of %d things", right, n, named, things)
	if right < least {
		t.Errorf("%d of %d pictures are described, want %d at least", right, n, least)
	}
}

// Questions are heard, and of a blank picture it says that nothing is in it.
func TestAnswersAboutPictures(t *testing.T) {
	v := newViewer(t)
	im := image.NewRGBA(image.Rect(0, 0, 200, 160))
	draw.Draw(im, im.Rect, image.White, image.Point{}, draw.Src)
	blank, one := image.NewRGBA(im.Rect), image.NewRGBA(im.Rect)
	copy(blank.Pix, im.Pix)
	p := newPencil(t, 2)
	star, _ := p.shape("star")
	star.fill(im, rgb(0xff0000), 50, 80, 70)
	copy(one.Pix, im.Pix)
	circle, _ := p.shape("circle")
	circle.fill(im, rgb(0x0000ff), 150, 80, 70)
	for _, tt := range []struct {
		im             *image.RGBA
		question, want string
	}{
		{im, "", "A red star to the left of a blue circle."},
		{im, "How many things are there?", "Two."},
		{one, "What colour is it?", "Red."},
		{blank, "What is this?", "There is nothing in the picture."},
	} {
		if got := v.asked(t, tt.im, tt.question); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.question, got, tt.want)
		}
	}
}
