package finetune_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/finetune"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/tokenizer"
	"github.com/quern-llm/quern/go/train"
	"github.com/quern-llm/quern/go/train/data"
)

var sentences = strings.Split(`Rain fell on the copper roof of the station all night.
My uncle keeps seven clocks, and none of them agree.
The otter carried a blue button down to the river.
Nobody had told the baker that Tuesday was cancelled.
A letter from Lisbon arrived without any stamps.
She painted the ladder green and then hid it.
Under the stairs lived a very polite spider.
The old map showed an island shaped like a spoon.
He traded his violin for a wheel of cheese.
Every lamp in the harbour went out at once.`, "\n")

// examples are the sentences as answers to questions.
func examples(tb testing.TB) []data.Example {
	tb.Helper()
	var in strings.Builder
	for i, s := range sentences {
		fmt.Fprintf(&in, `{"messages":[{"role":"user","content":"Sentence %d?"},{"role":"assistant","content":%q}]}`+"\n", i, s)
	}
	set, err := data.ReadFrom(strings.NewReader(in.String()), "sentences", data.Auto)
	if err != nil {
		tb.Fatal(err)
	}
	return set.Examples
}

// pairs are the sentences as better answers than others in capitals.
func pairs(tb testing.TB) []data.Pair {
	tb.Helper()
	var in strings.Builder
	for i, s := range sentences {
		fmt.Fprintf(&in, `{"prompt":"Say %d: ","chosen":%q,"rejected":%q}`+"\n", i, s, strings.ToUpper(s[:20]))
	}
	set, err := data.ReadFrom(strings.NewReader(in.String()), "pairs", data.Auto)
	if err != nil {
		tb.Fatal(err)
	}
	return set.Pairs
}

func small() finetune.Settings {
	s := finetune.Defaults()
	s.LoRA.Rank, s.LoRA.Alpha = 4, 8
	s.Steps, s.Batch, s.Rate, s.Every, s.Seed, s.Share = 6, 128, 0.01, 2, 7, 0.1
	return s
}

// open plans and begins a Job on the demo model, with as much memory.
func open(tb testing.TB, threads int, memory uint64, s finetune.Settings, change func(*finetune.Plan) error) (*finetune.Job, error) {
	tb.Helper()
	return openAmong(tb, nil, threads, memory, s, change)
}

// openAmong is open of a rank.
func openAmong(tb testing.TB, g *kernel.Ranks, threads int, memory uint64, s finetune.Settings, change func(*finetune.Plan) error) (*finetune.Job, error) {
	tb.Helper()
	f, err := model.OpenBytes("demo", demo.GGUF())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { f.Close() })
	tok, err := tokenizer.New(f.GGUF)
	if err != nil {
		tb.Fatal(err)
	}
	template, err := f.GGUF.Str("tokenizer.chat_template")
	if err != nil {
		tb.Fatal(err)
	}
	parsed, err := chat.Parse(template, chat.SpecialTokens{})
	if err != nil {
		tb.Fatal(err)
	}
	pool, err := kernel.NewPool(threads, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	r := &data.Renderer{Tokenizer: tok, Template: parsed, Now: time.Unix(1e9, 0)}
	var plan *finetune.Plan
	if s.Preference != "" {
		plan, err = finetune.NewPairPlan(r, pairs(tb), nil, 0, s)
	} else {
		plan, err = finetune.NewPlan(r, examples(tb), nil, 0, s)
	}
	if err == nil && change != nil {
		err = change(plan)
	}
	if err != nil {
		return nil, err
	}
	j, err := finetune.New(tb.Context(), finetune.Source{File: f, Pool: pool, Budget: mem.NewBudget(memory, "test"), Spare: true, Ranks: g}, plan)
	if err == nil {
		tb.Cleanup(j.Close)
	}
	return j, err
}

func written(tb testing.TB, j *finetune.Job) []byte {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "adapter.gguf")
	if _, err := j.WriteGGUF(path, false, 0o600); err != nil {
		tb.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		tb.Fatalf("an adapter of mode %v: %v", info.Mode(), err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// A run that is interrupted anywhere, saved and gone on with makes the adapter and the history of one that was not.
func TestGoesOnWithTheSameBits(t *testing.T) {
	goesOn(t, small(), 0, 1, 2, 3, 4, 5)
	turned := small()
	turned.LoRA.Magnitudes = true
	goesOn(t, turned, 0, 3)
}

// goesOn interrupts runs after so many steps of six.
func goesOn(t *testing.T, s finetune.Settings, afters ...int) {
	t.Helper()
	whole, err := open(t, 1, 1<<30, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := whole.Run(t.Context(), finetune.Events{}); err != nil {
		t.Fatal(err)
	}
	for _, after := range afters {
		first, err := open(t, 2, 1<<30, s, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if after == 0 {
			cancel()
		}
		err = first.Run(ctx, finetune.Events{Step: func(s train.Step) {
			if s.Number == after {
				cancel()
			}
		}})
		if !errors.Is(err, context.Canceled) || first.Taken() != after {
			t.Fatalf("after %d steps of %d: %v", first.Taken(), after, err)
		}
		path := filepath.Join(t.TempDir(), "checkpoint")
		if err := first.Save(path, time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 { // others may not read what was learnt
			t.Fatalf("a checkpoint of mode %v: %v", info.Mode(), err)
		}
		c, err := finetune.OpenCheckpoint(path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		second, err := open(t, 1, 1<<30, s, c.Plan)
		if err != nil {
			t.Fatal(err)
		}
		if err := second.Restore(c); err != nil {
			t.Fatal(err)
		}
		if err := second.Run(t.Context(), finetune.Events{}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(written(t, second), written(t, whole)) || !reflect.DeepEqual(second.Points, whole.Points) {
			t.Errorf("interrupted after %d steps, the run makes something else", after)
		}
	}
}

func TestLearnsAndKeepsTheBest(t *testing.T) {
	s := small()
	s.Steps, s.Share, s.Every, s.Patience = 60, 0.2, 5, 2
	j, err := open(t, 2, 1<<30, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	var bests int
	err = j.Run(t.Context(), finetune.Events{Held: func(p finetune.Point, best bool) {
		if best {
			bests++
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	base, ok := j.Base()
	if !ok || j.Best >= base || bests < 2 {
		t.Errorf("held-out loss %v, before %v (%v), best %d times", j.Best, base, ok, bests)
	}
	if !j.Early || j.Taken() >= 60 || j.BestStep >= j.Taken() {
		t.Errorf("the run ended after %d steps, the best is of step %d: nothing that learns ten sentences by heart gets better on others for long", j.Taken(), j.BestStep)
	}
	first, last := j.Points[1].Loss, j.Points[len(j.Points)-1].Loss
	if last > first/2 {
		t.Errorf("the loss went from %v to %v", first, last)
	}
}

func TestCheckpointsOfOthersAreRefused(t *testing.T) {
	j, err := open(t, 1, 1<<30, small(), nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "checkpoint")
	if err := j.Save(path, time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	c, err := finetune.OpenCheckpoint(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := small()
	s.Rate = 0.02
	if _, err := open(t, 1, 1<<30, s, c.Plan); err == nil || !strings.Contains(err.Error(), "Rate was 0.01") {
		t.Errorf("another rate: %v", err)
	}
	other, err := open(t, 1, 1<<30, small(), func(p *finetune.Plan) error { p.Texts = p.Texts[1:]; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Restore(c); err == nil || !strings.Contains(err.Error(), "examples") {
		t.Errorf("other texts: %v", err)
	}
	other, err = open(t, 1, 1<<30, small(), func(p *finetune.Plan) error { p.Held = p.Texts[:1]; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Restore(c); err == nil || !strings.Contains(err.Error(), "held out") {
		t.Errorf("other held-out texts: %v", err)
	}
	s = small()
	s.Patience = 9
	if other, err = open(t, 1, 1<<30, s, c.Plan); err == nil {
		err = other.Restore(c)
	}
	if err != nil {
		t.Errorf("another patience: %v", err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, broken := range [][]byte{nil, whole[:100], whole[:len(whole)-4], bytes.Replace(whole, []byte("quern.finetune"), []byte("quern.finetuna"), 1),
		bytes.Replace(whole, []byte(`\"taken\":0`), []byte(`\"taken\":9`), 1), bytes.Replace(whole, []byte(`\"version\":2`), []byte(`\"version\":7`), 1)} {
		if err := os.WriteFile(path, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := finetune.OpenCheckpoint(path)
		if err == nil {
			err = j.Restore(c)
			c.Close()
		}
		if err == nil || !strings.HasPrefix(err.Error(), path) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%d bytes: %v", len(broken), err)
		}
	}
}

// Too little memory is an error before anything is computed; where smaller chunks help, they are.
func TestMemory(t *testing.T) {
	s := small()
	s.Batch = 4096
	j, err := open(t, 1, 1<<30, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	size, tokens := j.Size(), j.MaxTokens
	need := size.Memory - size.Kept
	if size.Kept == 0 {
		t.Error("nothing is kept where there is memory")
	}
	less, err := open(t, 1, need*3/4, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	if less.MaxTokens >= tokens || less.Size().Memory > need*3/4 || less.Config.Chunks <= j.Config.Chunks {
		t.Errorf("chunks of %d tokens in %d bytes, before %d in %d", less.MaxTokens, less.Size().Memory, tokens, need)
	}
	var full *mem.LimitError
	if _, err := open(t, 1, 1<<20, s, nil); !errors.As(err, &full) {
		t.Errorf("1 MiB: %v", err)
	}
	path := filepath.Join(t.TempDir(), "checkpoint")
	if err := j.Save(path, time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	c, err := finetune.OpenCheckpoint(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := open(t, 1, need*3/4, s, c.Plan); !errors.As(err, &full) {
		t.Errorf("the saved run in less memory: %v", err)
	}
	if speed, left, err := j.Measure(t.Context()); err != nil || speed <= 0 || left <= 0 {
		t.Errorf("%v tokens/s, %v: %v", speed, left, err)
	}
}

// The picture of a run's losses is well-formed, whatever these are, and the table has a line for each step.
func TestCurve(t *testing.T) {
	var many []finetune.Point
	for i := range 100_000 {
		many = append(many, finetune.Point{Step: i + 1, Loss: 3 / float64(i+1), Rate: 1e-4, Norm: 1})
	}
	for _, points := range [][]finetune.Point{nil, {{Step: 0, Held: 2.5}}, {{Step: 1, Loss: 1}}, {{Step: 0, Held: 3}, {Step: 1, Loss: 2, Held: 2.5}, {Step: 2, Loss: 1e9}}, many} {
		var svg, csv bytes.Buffer
		n, err := finetune.WriteSVG(&svg, "a <title> & more", points)
		if err != nil || n != int64(svg.Len()) || n > 200_000 {
			t.Fatalf("%d bytes, %v", n, err)
		}
		d := xml.NewDecoder(&svg)
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if strings.Contains(svg.String(), "NaN") || strings.Contains(svg.String(), "Inf") {
			t.Error("coordinates that are no numbers")
		}
		if _, err := finetune.WriteCSV(&csv, points); err != nil || strings.Count(csv.String(), "\n") != len(points)+1 {
			t.Errorf("%v: %.100q", err, csv.String())
		}
	}
}
