package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/internal/testdata"
)

// labelled writes texts of one word and of three, with the labels "short" and "long", of which the last few are long alone.
func labelled(t *testing.T, dir string) (file, classes string) {
	t.Helper()
	all := questions(30)
	file = jsonLines(t, dir, "labelled.jsonl", 30, func(i int) map[string]any {
		if i%2 == 0 && i < 26 {
			return map[string]any{"text": strings.Fields(all[i][0])[0], "label": "short"}
		}
		return map[string]any{"text": all[i][0], "label": "long"}
	})
	return file, writeFile(t, dir, "classes.txt", "short\n\nlong\r\n")
}

// A model without a classifier gets one: alone, beside an adapter, and with all weights. What is written is served at once.
func TestFinetuneNewClasses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, classes := labelled(t, dir)
	bert := testdata.Path(t, "models/tiny-random-bert-mean-f16.gguf")
	for _, way := range []struct {
		name, model, says string
		flags             []string
	}{
		{"alone", bert, "classifier: 2 classes, 130 numbers", []string{"--classes", "short,long", "--targets", "cls.output"}},
		{"adapter", bert, "classifier of 2 classes, and adapter: rank 16", []string{"--classes", classes}},
		{"full", bert, "weights: all ", []string{"--classes", "short, long", "--full", "F32", "--lr", "1e-3"}},
		{"decoder", demo.Name, "classifier of 2 classes, and adapter: rank 4", []string{"--classes", classes, "--rank", "4", "--dora"}},
	} {
		out := filepath.Join(dir, way.name+".gguf")
		said := succeed(t, append([]string{"finetune", "-m", way.model, "--data", file, "--val-data", file, "-o", out, "--steps", "40", "--patience", "0"}, way.flags...)...)
		for _, want := range []string{
			way.says, "classes, with their examples (of those held out): short 13 (13), long 17 (17)", "step 40 of 40: loss",
			"held-out examples by class:\n  short: ", " right", "to use it: quern classify -m " + out,
		} {
			if !strings.Contains(said, want) {
				t.Errorf("%s: got %q, want %q in it", way.name, said, want)
			}
		}
		if _, after := rightOf(t, said); after < 90 {
			t.Errorf("%s: %d%% right: %s", way.name, after, said)
		}
		for text, want := range map[string]string{"gift": "short", "big happy child": "long"} {
			if got := succeed(t, "classify", "-m", out, text); !strings.HasPrefix(got, want+"\t") {
				t.Errorf("%s: %q is %q, want %s", way.name, text, got, want)
			}
		}
	}
	s := serve(t, "", "-m", filepath.Join(dir, "decoder.gguf"))
	var got struct{ Data []struct{ Label string } }
	s.posted("/v1/classify", `{"input":["gift","big happy child"]}`, &got)
	if fmt.Sprint(got.Data) != "[{short} {long}]" {
		t.Errorf("the server says %v", got.Data)
	}
	quern(t, "finetune", "-m", filepath.Join(dir, "alone.gguf"), "--data", file, "--classes", "a,b", "-o", filepath.Join(dir, "x.gguf")).refused(t, 1, "already")
}

// A run that is interrupted, and gone on with by other threads, makes the bytes of one that was not; other classes are refused.
func TestFinetuneNewClassesGoesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, classes := labelled(t, dir)
	bert := testdata.Path(t, "models/tiny-random-bert-cls-f16.gguf")
	for _, way := range [][]string{{"--rank", "4"}, {"--targets", "cls.output", "--seed", "3"}} {
		args := func(out string, more ...string) []string {
			return append(append([]string{"finetune", "-m", bert, "--data", file, "--val-data", file, "--classes", classes, "-o", filepath.Join(dir, out),
				"--steps", "12", "--patience", "0", "--eval-every", "1", "--force"}, way...), more...)
		}
		succeed(t, args("whole.gguf", "--threads", "1")...)
		interrupt(t, args("out.gguf", "--threads", "1")...)
		more := append(args("out.gguf", "--resume", "--threads", "2"), "--classes", "long,short")
		quern(t, more...).refused(t, 1, "--classes was [short long]")
		succeed(t, args("out.gguf", "--resume", "--threads", "2")...)
		a, errA := os.ReadFile(filepath.Join(dir, "whole.gguf"))
		b, errB := os.ReadFile(filepath.Join(dir, "out.gguf"))
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("%q: the model of an interrupted run is another: %v, %v", way, errA, errB)
		}
	}
}

// Pairs of texts are told apart by both, and a text with a list of labels may be of several classes.
func TestFinetuneNewClassesOfPairs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bert := testdata.Path(t, "models/tiny-random-bert-mean-f16.gguf")
	words := strings.Fields("big fast road gift")
	pairs := jsonLines(t, dir, "pairs.jsonl", 16, func(i int) map[string]any {
		label := "other"
		if i%4 == i/4 {
			label = "same"
		}
		return map[string]any{"text": words[i%4], "text_pair": words[i/4], "label": label}
	})
	out := filepath.Join(dir, "pairs.gguf")
	said := succeed(t, "finetune", "-m", bert, "--data", pairs, "--val-data", pairs, "--classes", "same,other", "-o", out, "--steps", "100", "--lr", "5e-3", "--patience", "0")
	if _, after := rightOf(t, said); after < 90 || !strings.Contains(said, "[SEP]fast") && !strings.Contains(said, "fast[SEP]") {
		t.Errorf("%d%% right: %s", after, said)
	}
	for pair, want := range map[string]string{"road": "same", "gift": "other"} {
		if got := succeed(t, "classify", "-m", out, "road", "--text-pair", pair); !strings.HasPrefix(got, want+"\t") {
			t.Errorf("road and %s are %q, want %s", pair, got, want)
		}
	}
	several := jsonLines(t, dir, "several.jsonl", 8, func(i int) map[string]any {
		var text, labels []string
		for k, word := range words[:3] {
			if i>>k&1 == 1 {
				text, labels = append(text, word), append(labels, word)
			}
		}
		return map[string]any{"text": strings.Join(append(text, "gift"), " "), "label": append([]string{}, labels...)}
	})
	out = filepath.Join(dir, "several.gguf")
	said = succeed(t, "finetune", "-m", bert, "--data", several, "--val-data", several, "--classes", "big,fast,road", "-o", out, "--steps", "100", "--lr", "5e-3", "--patience", "0")
	if _, after := rightOf(t, said); after < 90 || !strings.Contains(said, "big: 4 of 4 right") {
		t.Errorf("%d%% right: %s", after, said)
	}
}

func TestFinetuneNewClassesRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bert, out := testdata.Path(t, "archs/bert.gguf"), filepath.Join(dir, "out.gguf")
	good := `{"text":"a","label":"x"}` + "\n" + `{"text":"b","label":"y"}` + "\n"
	for _, c := range []struct {
		text  string
		code  int
		want  []string
		flags []string
	}{
		{good + `{"text":"c","label":"z"}`, 1, []string{"in.jsonl:3", `"z"`}, nil},
		{good + `{"text":"c","label":2}`, 1, []string{"in.jsonl:3", `"2"`}, nil},
		{good + `{"text":"c","label":true}`, 1, []string{"in.jsonl:3: label"}, nil},
		{good + `{"text":"","label":"x"}`, 1, []string{"in.jsonl:3: text"}, nil},
		{good + `{"text":"c","text_pair":"","label":"x"}`, 1, []string{"in.jsonl:3: text_pair"}, nil},
		{`{"text":"a","label":"y"}` + "\n" + `{"text":"b","label":1}`, 1, []string{"in.jsonl:1", "all 2 examples", "others"}, nil},
		{`{"query":"a","positive":"b"}`, 1, []string{"--classes", "labels"}, nil},
		{`{"text":"a"}`, 1, []string{"--classes", "labels"}, nil},
		{good, 2, []string{"--classes", "FILE.gguf"}, []string{"-o", filepath.Join(dir, "folder")}},
		{good, 2, []string{"--classes", "--objective dpo"}, []string{"--objective", "dpo"}},
		{good, 2, []string{"--classes"}, []string{"--draft-for", bert}},
		{good, 1, []string{"--classes", "comes twice"}, []string{"--classes", "x,y,x"}},
		{good, 1, []string{"--classes", "without a name"}, []string{"--classes", "x,y,"}},
		{good, 1, []string{"--classes", "no such file", "commas"}, []string{"--classes", filepath.Join(dir, "none")}},
		{good, 1, []string{`"cls"`}, []string{"--targets", "cls"}},
	} {
		file := writeFile(t, dir, "in.jsonl", c.text+"\n")
		args := append([]string{"finetune", "-m", bert, "--data", file, "--classes", "x,y", "-o", out}, c.flags...)
		quern(t, args...).refused(t, c.code, c.want...)
	}
	rare := jsonLines(t, dir, "rare.jsonl", 24, func(i int) map[string]any {
		return map[string]any{"text": fmt.Sprint("text ", i), "label": min(i, 1)}
	})
	said := succeed(t, "finetune", "-m", bert, "--data", rare, "--classes", "x,y,z", "-o", out, "--steps", "2", "--val-split", "0", "--dry-run")
	if !strings.Contains(said, "without examples: z") {
		t.Errorf("got %q", said)
	}
	said = succeed(t, "finetune", "-m", bert, "--data", rare, "--classes", "x,y", "-o", out, "--steps", "2", "--val-split", "0", "--dry-run")
	if !strings.Contains(said, "out of balance: y has 23 examples, x 1") {
		t.Errorf("got %q", said)
	}
}
