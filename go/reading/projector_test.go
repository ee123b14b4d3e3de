package reading

import (
	"bytes"
	"encoding/json"
	"errors"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/projector"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A seen is a prompt with media as another implementation gives it to a model.
type seen struct {
	MMProj    string
	TextModel string `json:"text_model"`
	Media     []string
	Prompt    string
	BothWays  bool `json:"both_ways"`
	PeerWrong any  `json:"peer_wrong"`
	Chunks    []struct {
		IDs   []int32
		Media *int
		Kind  string
		Rows  int
	}
}

func readSeen(t *testing.T, path string) (c seen) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// pieces cuts the prompt at its markers. One without has the media in front.
func (c *seen) pieces(t *testing.T, dir string) (all []chat.Piece) {
	t.Helper()
	const marker = "<__media__>"
	prompt := c.Prompt
	if !strings.Contains(prompt, marker) {
		prompt = strings.Repeat(marker, len(c.Media)) + prompt
	}
	for i, text := range strings.Split(prompt, marker) {
		if i > 0 {
			data, err := os.ReadFile(filepath.Join(dir, c.Media[i-1]))
			if err != nil {
				t.Fatal(err)
			}
			kind, err := KindOf(data)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, chat.Piece{Medium: &chat.Medium{Kind: kind, Data: data}})
		}
		if text != "" {
			all = append(all, chat.Piece{Text: text})
		}
	}
	return all
}

func testDevice(t *testing.T) *engine.Device {
	t.Helper()
	d, err := engine.NewDevice(engine.DeviceConfig{Threads: 2, Budget: mem.NewBudget(1<<30, "test")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// eyes opens the projector and the vocabulary of a case; nil: the kind is not supported.
func (c *seen) eyes(t *testing.T, d *engine.Device, dir string, config Limits) (*Projector, *tokenizer.Tokenizer) {
	t.Helper()
	text, err := model.OpenFile(filepath.Join(dir, c.TextModel))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(text.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	f, err := model.OpenFile(filepath.Join(dir, c.MMProj))
	if err != nil {
		t.Fatal(err)
	}
	of, _ := f.GGUF.Projector()
	for _, one := range []struct {
		kind  string
		sense projector.Sense
	}{{of.Vision, projector.Sight}, {of.Audio, projector.Hearing}} {
		if one.kind != "" && !slices.Contains(projector.Names(one.sense), one.kind) {
			f.Close()
			text.Close()
			return nil, nil
		}
	}
	e, err := engine.New(text, engine.Config{Device: d, Ctx: 256, Sequences: 1, Media: &engine.Media{Projector: f}})
	if err != nil {
		t.Fatal(c.MMProj, err)
	}
	t.Cleanup(func() { e.Close() })
	p, err := NewProjector(e, f, d.Budget(), config)
	if err != nil {
		t.Fatal(c.MMProj, err)
	}
	return p, tok
}

// Prompts with media are the tokens of llama.cpp, with the places of these: texts around media, rows, what follows.
func TestTokensOfMedia(t *testing.T) {
	dir := testdata.Path(t, "mmproj")
	paths, err := filepath.Glob(filepath.Join(dir, "cases/*.json"))
	if err != nil || len(paths) < 100 {
		t.Fatal(len(paths), err)
	}
	d, known := testDevice(t), 0
	var last seen // whose projector is open: cases of one are in succession
	var eyes *Projector
	var tok *tokenizer.Tokenizer
	for _, path := range paths {
		c := readSeen(t, path)
		if c.MMProj != last.MMProj || c.TextModel != last.TextModel {
			eyes, tok = c.eyes(t, d, dir, Limits{})
		}
		if last = c; eyes == nil {
			continue
		}
		known++
		// The peer looks up two newlines as one token, which no merge of this vocabulary makes.
		if toy, _, _ := strings.Cut(filepath.Base(path), "."); toy == "idefics3" {
			for i := range c.Chunks {
				if k := slices.Index(c.Chunks[i].IDs, 512); k >= 0 {
					c.Chunks[i].IDs = slices.Replace(c.Chunks[i].IDs, k, k+1, 198, 198)
				}
			}
		}
		if c.PeerWrong != nil {
			continue // in the number of rows
		}
		name := filepath.Base(path)
		got, err := eyes.Tokens(t.Context(), tok, 0, c.pieces(t, dir))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		at, n := 0, 0
		for _, chunk := range c.Chunks {
			if chunk.Media == nil {
				if end := at + len(chunk.IDs); end > len(got.IDs) || !slices.Equal(got.IDs[at:end], chunk.IDs) {
					t.Errorf("%s: %v at %d, want %v", name, got.IDs, at, chunk.IDs)
					break
				}
				at += len(chunk.IDs)
				continue
			}
			if n >= len(got.Media) {
				t.Errorf("%s: %d media", name, len(got.Media))
				break
			}
			m := got.Media[n]
			if m.At != at || m.Tokens != chunk.Rows || m.BothWays != (c.BothWays && chunk.Kind == "image") {
				t.Errorf("%s: medium %+v, want %d rows at %d", name, m, chunk.Rows, at)
			}
			at, n = at+m.Tokens, n+1
		}
		if at != len(got.IDs) || n != len(got.Media) {
			t.Errorf("%s: %d tokens and %d media, want %d and %d", name, len(got.IDs), len(got.Media), at, n)
		}
	}
	if known < 60 {
		t.Errorf("%d cases of known kinds", known)
	}
	t.Logf("%d of %d cases", known, len(paths))
}

// What has the same pixels is the same, whatever the file; and another with other pixels, limits and details.
func TestHashesOfMedia(t *testing.T) {
	dir := testdata.Path(t, "mmproj")
	c := readSeen(t, filepath.Join(dir, "cases/qwen3vl.start.json"))
	eyes, tok := c.eyes(t, testDevice(t), dir, Limits{MinTokens: 4, MaxTokens: 64})
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, "media", name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	see := func(data []byte, detail string) engine.Medium {
		got, err := eyes.Tokens(t.Context(), tok, 4096, []chat.Piece{{Medium: &chat.Medium{Kind: chat.Picture, Data: data, Detail: detail}}})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Media) != 1 || got.Used[chat.Picture] != got.Media[0].Tokens {
			t.Fatalf("%+v", got)
		}
		return got.Media[0]
	}
	shapes := read("shapes-640x488.png")
	one := see(shapes, "")
	if one.Hash != see(slices.Concat(shapes, []byte("behind it")), "high").Hash || one.Tokens > 64 {
		t.Errorf("a picture is two, or has %d tokens", one.Tokens)
	}
	if low := see(shapes, "low"); one.Hash == low.Hash || low.Tokens > 4 {
		t.Errorf("low detail has %d tokens", low.Tokens)
	}
	if one.Hash == see(read("small-224x160.png"), "").Hash {
		t.Error("two pictures are one")
	}
	two := []chat.Piece{{Medium: &chat.Medium{Kind: chat.Picture, Data: shapes}}, {Medium: &chat.Medium{Kind: chat.Picture, Data: shapes}}}
	if _, err := eyes.Tokens(t.Context(), tok, 20, two); !errors.As(err, new(*engine.TooLongError)) {
		t.Errorf("two pictures in a context of 20: %v", err)
	}
	two[1].Medium.Data = shapes[:300]
	if _, err := eyes.Tokens(t.Context(), tok, 4096, two); err == nil || !strings.Contains(err.Error(), "damaged PNG") {
		t.Errorf("half a picture: %v", err)
	}
}

func TestLimits(t *testing.T) {
	dir := testdata.Path(t, "mmproj")
	for _, c := range []struct {
		file string
		Limits
		want string
	}{
		{"mm/gemma3-f16.gguf", Limits{MaxTokens: 64}, "fixed number of tokens"},
		{"mm/qwen3vl-f16.gguf", Limits{MinTokens: 65, MaxTokens: 64}, "pictures of 65 to 64 tokens"},
		{"mm/qwen3vl-f16.gguf", Limits{MaxTokens: 2}, ""},
	} {
		f, err := model.OpenFile(filepath.Join(dir, c.file))
		if err != nil {
			t.Fatal(err)
		}
		e, err := projector.Read(f.GGUF, projector.Sight)
		if err != nil {
			t.Fatal(err)
		}
		if err = c.Limits.apply(e); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
		f.Close()
	}
}

// A picture that is a line is refused, since no number of tokens would do for it.
func TestLines(t *testing.T) {
	dir := testdata.Path(t, "mmproj")
	c := readSeen(t, filepath.Join(dir, "cases/qwen3vl.start.json"))
	eyes, tok := c.eyes(t, testDevice(t), dir, Limits{})
	for _, size := range [][2]int{{1, 201}, {402, 2}} {
		var b bytes.Buffer
		if err := png.Encode(&b, image.NewRGBA(image.Rect(0, 0, size[0], size[1]))); err != nil {
			t.Fatal(err)
		}
		_, err := eyes.Tokens(t.Context(), tok, 0, []chat.Piece{{Medium: &chat.Medium{Kind: chat.Picture, Data: b.Bytes()}}})
		if err == nil || !strings.Contains(err.Error(), "200 times") {
			t.Errorf("%v: %v", size, err)
		}
	}
}
