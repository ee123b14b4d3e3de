package reading

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"sync"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/sound"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/projector"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A Projector says what stands in a prompt for pictures and sounds. It is safe for concurrent use.
type Projector struct {
	encoders map[chat.Kind]*projector.Encoder
	identity [sha256.Size]byte
	budget   *mem.Budget
	decoding sync.Mutex // pictures and sounds are decoded one at a time: they take much memory, for a short time
}

// Limits say how many tokens a picture has. The zero value is as the models' processors have it.
type Limits struct {
	MinTokens, MaxTokens int // of a picture of any size; 0: the model's own
}

// senses are those of the kinds of media.
var senses = map[chat.Kind]projector.Sense{chat.Picture: projector.Sight, chat.Sound: projector.Hearing}

// soundRate is the samples a second that encoders hear.
const soundRate = 16000

// mostAspect is how many times as long as the other a side of a picture is at most, as processors have it.
const mostAspect = 200

// NewProjector returns the projector of an engine, which was opened with its file; nil: it was opened without.
func NewProjector(e *engine.Engine, f *model.File, budget *mem.Budget, l Limits) (*Projector, error) {
	if f == nil {
		return nil, nil
	}
	p := &Projector{encoders: map[chat.Kind]*projector.Encoder{}, budget: budget}
	for kind, sense := range senses {
		k := e.Projector(sense)
		if k == nil {
			continue
		}
		own := *k
		if kind == chat.Picture {
			if err := l.apply(&own); err != nil {
				return nil, err
			}
		}
		p.encoders[kind] = &own
	}
	p.identity = identityOf(f)
	return p, nil
}

// apply sets how many tokens a picture has.
func (c Limits) apply(e *projector.Encoder) error {
	if c.MinTokens == 0 && c.MaxTokens == 0 {
		return nil
	}
	if e.MaxRows == 0 {
		return fmt.Errorf("pictures of projectors of the kind %s have a fixed number of tokens; leave out the limits", e.Kind.Name)
	}
	low, high := cmp.Or(c.MinTokens, e.MinRows), cmp.Or(c.MaxTokens, e.MaxRows)
	if low > high && c.MinTokens == 0 {
		low = high
	}
	if low < 1 || low > high {
		return fmt.Errorf("pictures of %d to %d tokens; want a minimum of at most the maximum", low, high)
	}
	e.MinRows, e.MaxRows = low, high
	return nil
}

// identityOf returns a hash of what a file says of itself, and of parts of each tensor.
func identityOf(f *model.File) (id [sha256.Size]byte) {
	const part = 4096 // bytes of each end of a tensor
	h := sha256.New()
	for _, t := range f.GGUF.Tensors {
		fmt.Fprintln(h, t.Name, t.Type, t.Dims)
		data := t.Data
		h.Write(data[:min(len(data), part)])
		h.Write(data[max(0, len(data)-part):])
	}
	h.Sum(id[:0])
	return id
}

// Takes reports whether the model sees pictures, or hears sounds. A nil Projector does neither.
func (p *Projector) Takes(k chat.Kind) bool { return p != nil && p.encoders[encoded(k)] != nil }

// encoded returns the kind of media whose encoder reads a kind.
func encoded(k chat.Kind) chat.Kind {
	if k == chat.Video {
		return chat.Picture
	}
	return k
}

// Asks returns how the publisher of the model asks it for what is said in a sound.
func (p *Projector) Asks() projector.Ask { return p.encoders[chat.Sound].Kind.Ask }

// A Prompt is the tokens of a text with media.
type Prompt struct {
	IDs   []int32
	Media []engine.Medium
	Used  map[chat.Kind]int // tokens of media, of each kind; nil: there are none
}

// Tokens returns the tokens of the pieces of a prompt for a context of so many. It is an *engine.TooLongError if they are much
// too many. All of a prompt that has media is made here, but for their rows, which the engine makes: they are decoded, and
// stand between the texts that the projector puts around them. With a context of 0 they are only counted, and none are too many.
func (p *Projector) Tokens(ctx context.Context, tok *tokenizer.Tokenizer, window int, pieces []chat.Piece) (*Prompt, error) {
	out, err := p.TokensAs(ctx, tok, window, pieces, tokenizer.Options{ParseSpecial: true})
	if err != nil {
		return nil, err
	}
	n := len(out.IDs)
	out.IDs = tok.Begin(out.IDs)
	for i := range out.Media {
		out.Media[i].At -= n - len(out.IDs)
	}
	return out, nil
}

// TokensAs is Tokens with options for the texts of the pieces, as they are: BOS may stand there twice.
func (p *Projector) TokensAs(ctx context.Context, tok *tokenizer.Tokenizer, window int, pieces []chat.Piece, as tokenizer.Options) (*Prompt, error) {
	out := &Prompt{}
	add := func(text string, o tokenizer.Options) error {
		if window == 0 {
			out.IDs = append(out.IDs, tok.Encode(text, o)...)
			return nil
		}
		ids, err := Encode(tok, window, text, o, len(out.IDs))
		out.IDs = append(out.IDs, ids...)
		return err
	}
	if len(pieces) == 1 && pieces[0].Medium == nil {
		as.Literal = pieces[0].Literal
		return out, add(pieces[0].Text, as)
	}
	out.Used = map[chat.Kind]int{}
	around := tok.Encode("", tokenizer.Options{NoSpecial: as.NoSpecial}) // what begins a text, and what ends it
	lead := len(around)
	if !as.NoSpecial {
		lead = len(tok.Lead())
	}
	out.IDs = append(out.IDs, around[:lead]...)
	for i, piece := range pieces {
		m := piece.Medium
		if m == nil {
			if err := add(piece.Text, tokenizer.Options{NoSpecial: true, ParseSpecial: as.ParseSpecial, Literal: piece.Literal}); err != nil {
				return nil, err
			}
			continue
		}
		parts, hash, err := p.see(ctx, m)
		if err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, fmt.Errorf("a %s (piece %d of the prompt): %w", m.Kind, i+1, err)
		}
		kind, number := encoded(m.Kind), 0
		e := p.encoders[kind]
		for _, part := range parts {
			if part.Input == nil {
				before := len(out.IDs)
				if err := add(part.Text, tokenizer.Options{NoSpecial: true, ParseSpecial: true}); err != nil {
					return nil, err
				}
				if part.Known && len(out.IDs) > before+1 {
					out.IDs = out.IDs[:before]
				}
				continue
			}
			one := engine.Medium{
				At: len(out.IDs), Tokens: part.Input.Rows(), Hash: numbered(hash, number), BothWays: kind == chat.Picture && e.BothWays(),
				Sense: senses[kind],
			}
			if window > 0 { // else only counted, and pixels are not kept
				one.Input = part.Input
			}
			number++
			for range one.Tokens {
				out.IDs = append(out.IDs, -1)
			}
			out.Used[kind] += one.Tokens
			if window > 0 && len(out.IDs) > countedContexts*window {
				return nil, &engine.TooLongError{Prompt: len(out.IDs), Ctx: window, Least: true}
			}
			out.Media = append(out.Media, one)
		}
	}
	out.IDs = append(out.IDs, around[lead:]...)
	return out, nil
}

// numbered is the hash of the input of a number that a medium is cut into.
func numbered(hash [sha256.Size]byte, n int) [sha256.Size]byte {
	if n == 0 {
		return hash
	}
	return sha256.Sum256(binary.LittleEndian.AppendUint32(hash[:], uint32(n)))
}

// see decodes a medium, and returns its parts and a hash of all that decides them and their rows.
func (p *Projector) see(ctx context.Context, m *chat.Medium) (parts []projector.Part, id [sha256.Size]byte, err error) {
	e := p.encoders[encoded(m.Kind)]
	if e == nil {
		return nil, id, errors.New("the model takes none")
	}
	p.decoding.Lock()
	defer p.decoding.Unlock()
	reserve := p.budget.Lender("decoding a picture or a sound")
	h := sha256.New()
	h.Write(p.identity[:])
	if e.Short {
		fmt.Fprintln(h, "of 8 bits")
	}
	if m.Kind == chat.Sound {
		samples := m.Samples
		if samples == nil {
			s, err := sound.Decode(ctx, m.Data, sound.Limits{Reserve: reserve})
			if err != nil {
				return nil, id, err
			}
			samples = s.At(soundRate)
		}
		write(h, samples)
		h.Sum(id[:0])
		return e.Hear(samples), id, nil
	}
	film, err := frames(ctx, m, picture.Limits{Pixels: picture.MaxPixels, Reserve: reserve})
	if err != nil {
		return nil, id, err
	}
	img := film.Frames[0]
	if long, short := max(img.Width, img.Height), min(img.Width, img.Height); long > mostAspect*short {
		return nil, id, fmt.Errorf("%d x %d pixels: one side is more than %d times as long as the other, which no model reads; cut it",
			img.Width, img.Height, mostAspect)
	}
	eye := *e
	if m.Detail == "low" {
		eye.MaxRows = eye.MinRows
	}
	fmt.Fprintln(h, img.Width, img.Height, eye.MinRows, eye.MaxRows)
	for _, frame := range film.Frames {
		h.Write(frame.Pix)
	}
	if m.Kind == chat.Video {
		fmt.Fprintln(h, "frames a second:", film.Rate)
		h.Sum(id[:0])
		return eye.Watch(film), id, nil
	}
	h.Sum(id[:0])
	return eye.See(img), id, nil
}

// write adds samples to a hash.
func write(h hash.Hash, samples []float32) { _ = binary.Write(h, binary.LittleEndian, samples) } // a hash takes all
