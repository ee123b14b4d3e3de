package model

import (
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/projector"
	"github.com/quern-llm/quern/go/tokenizer"
)

// libmtmds changes inputs to what libmtmd computes where that is not what the publishers' models do. Encoders must do what
// these do; given the other order, they have libmtmd's numbers.
var libmtmds = map[string]func(t *testing.T, e *Encoder, parts []projector.Part){
	"internvl": func(t *testing.T, e *Encoder, parts []projector.Part) { misplace(t, e, parts, 0) },
	"llava":    func(t *testing.T, e *Encoder, parts []projector.Part) { misplace(t, e, parts, 1) },
	"llama4": func(_ *testing.T, _ *Encoder, parts []projector.Part) { // rows column by column
		for _, part := range parts {
			if in := part.Input; in != nil {
				for i := range in.Made {
					in.Order = append(in.Order, int32(i%in.Grid.Rows*in.Grid.Columns+i/in.Grid.Rows))
				}
			}
		}
	},
}

// misplace gives patches the positions from the first on, which is that of the token for the whole picture, and that token the
// last one. The first rows are left out, and that token is among them in their place.
func misplace(t *testing.T, e *Encoder, parts []projector.Part, first int) {
	t.Helper()
	tensor, ok := e.model.GGUF().Tensor("v.position_embd.weight")
	if !ok {
		t.Fatal("no positions")
	}
	width, n := int(tensor.Dims[0]), int(tensor.Dims[1])
	all := make([]float32, width*n)
	if err := kernel.Dequantize(kernel.Type(tensor.Type), all, tensor.Data); err != nil {
		t.Fatal(err)
	}
	position := func(i int) []float32 { return all[i*width:][:width] }
	for _, part := range parts {
		in := part.Input
		if in == nil {
			continue
		}
		row := in.Row
		in.Row = func(dst []float32, i int) {
			i = (i + first) % n
			row(dst, i)
			own := dst[in.Columns-width:]
			if i == n-1 {
				for j := range own {
					own[j] += position(n - 1)[j] - position(0)[j]
				}
				return
			}
			for at := range n - 1 {
				if slices.Equal(own, position(at+1)) {
					copy(own, position(at))
					return
				}
			}
			t.Fatal("a patch without a position")
		}
	}
}

// vocabulary returns the tokenizer of a file.
func vocabulary(t testing.TB, path string) *tokenizer.Tokenizer {
	t.Helper()
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := tokenizer.New(f.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// comparePrompt compares what stands in the prompt, with the parts of each medium: the ids between inputs, and where the rows
// of each input are.
func (w *sight) comparePrompt(t *testing.T, name string, tok *tokenizer.Tokenizer, media [][]projector.Part) {
	t.Helper()
	var texts [][]int32 // of what stands before each input, and behind the last
	var inputs []*projector.Input
	ids := tok.Lead()
	text := func(part projector.Part) {
		more := tok.Encode(part.Text, tokenizer.Options{NoSpecial: true, ParseSpecial: true})
		if !part.Known || len(more) == 1 {
			ids = append(ids, more...)
		}
	}
	prompt := strings.Split(w.Prompt, "<__media__>")
	if len(prompt) == 1 {
		prompt = []string{"", prompt[0]}
	}
	for i, plain := range prompt {
		if plain != "" {
			text(projector.Part{Text: plain})
		}
		if i == len(media) {
			break
		}
		for _, part := range media[i] {
			if part.Input == nil {
				text(part)
				continue
			}
			texts, inputs, ids = append(texts, ids), append(inputs, part.Input), nil
		}
	}
	texts = append(texts, ids)
	at := 0
	for _, c := range w.Chunks {
		if c.Media == nil {
			// The small vocabularies have tokens of two newlines that no merge makes.
			if at >= len(texts) || !slices.Equal(texts[at], c.IDs) && tok.Detokenize(texts[at], true) != tok.Detokenize(c.IDs, true) {
				t.Errorf("%s: before input %d of %d: ids %v, want %v", name, at, len(inputs), texts[min(at, len(texts)-1)], c.IDs)
				return
			}
			texts[at] = nil
			continue
		}
		if at == len(inputs) || inputs[at].Rows() != c.Rows || len(texts[at]) > 0 {
			t.Errorf("%s: input %d of %d is not one of %d rows behind %v", name, at, len(inputs), c.Rows, texts[min(at, len(texts)-1)])
			return
		}
		for i, want := range c.Places {
			x := inputs[at].Grid.Columns
			if got := [3]int32{0, int32(i / x), int32(i % x)}; want[1]-want[0] != got[1] || want[2]-want[0] != got[2] {
				t.Errorf("%s: row %d of input %d is at %v, want %v", name, i, at, got, want)
				return
			}
		}
		at++
	}
	if at != len(inputs) || len(texts[at]) > 0 {
		t.Errorf("%s: %d inputs and then %v, want %d and nothing", name, len(inputs), texts[len(texts)-1], at)
	}
}
