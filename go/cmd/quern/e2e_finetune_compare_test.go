package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/internal/testdata"
)

// Words of questions, and those of answers: the i-th belong together, which nothing but the pairs says.
var (
	askedWords  = strings.Fields("big fast happy house road child begin end gift sick smart rich")
	answerWords = strings.Fields("large quick glad home street kid start stop present ill clever wealthy")
)

// questions are n questions of three words each, no two of the same, with their answers, in an order of their own.
func questions(n int) (all [][2]string) {
	rng := rand.New(rand.NewPCG(1, 2))
	seen := map[string]bool{}
	for len(all) < n {
		at := rng.Perm(len(askedWords))[:3]
		var q, a []string
		for _, i := range at {
			q = append(q, askedWords[i])
		}
		slices.Sort(at)
		if seen[fmt.Sprint(at)] {
			continue
		}
		seen[fmt.Sprint(at)] = true
		rng.Shuffle(3, func(i, k int) { at[i], at[k] = at[k], at[i] })
		for _, i := range at {
			a = append(a, answerWords[i])
		}
		all = append(all, [2]string{strings.Join(q, " "), strings.Join(a, " ")})
	}
	return all
}

// jsonLines writes records to a file in dir.
func jsonLines(t *testing.T, dir, name string, n int, record func(i int) map[string]any) string {
	t.Helper()
	var in strings.Builder
	for i := range n {
		b, err := json.Marshal(record(i))
		if err != nil {
			t.Fatal(err)
		}
		in.Write(append(b, '\n'))
	}
	return writeFile(t, dir, name, in.String())
}

// found returns how many of the questions have their own answer ranked first, among all.
func found(t *testing.T, all [][2]string, flags ...string) (n int) {
	t.Helper()
	for _, x := range all {
		args := append([]string{"rerank", x[0]}, flags...)
		for _, y := range all {
			args = append(args, y[1])
		}
		if best := strings.Split(succeed(t, args...), "\n")[0]; strings.HasSuffix(best, "\t"+x[1]) {
			n++
		}
	}
	return n
}

// An embedding model is trained by questions with their answers: with the adapter, and merged with it, it finds those of others.
func TestFinetuneVectors(t *testing.T) {
	t.Parallel()
	bert := testdata.Path(t, "models/tiny-random-bert-mean-f16.gguf")
	dir, all := t.TempDir(), questions(150)
	learn, held := all[:138], all[138:]
	file := jsonLines(t, dir, "learn.jsonl", len(learn), func(i int) map[string]any {
		return map[string]any{"anchor": learn[i][0], "positive": learn[i][1]}
	})
	val := jsonLines(t, dir, "held.jsonl", len(held), func(i int) map[string]any {
		return map[string]any{"query": held[i][0], "pos": []string{held[i][1]}}
	})
	out, merged := filepath.Join(dir, "out.gguf"), filepath.Join(dir, "merged.gguf")
	said := succeed(t, "finetune", "-m", bert, "--data", file, "--val-data", val, "-o", out, "--steps", "100", "--lr", "0.005", "--patience", "0")
	for _, want := range []string{" % right)", "quern embed -m " + bert + " --lora " + out, "learnt from: 138 examples"} {
		if !strings.Contains(said, want) {
			t.Errorf("got %q, want %q in it", said, want)
		}
	}
	succeed(t, "merge-lora", bert, out, "-o", merged)
	before, after, whole := found(t, held, "-m", bert), found(t, held, "-m", bert, "--lora", out), found(t, held, "-m", merged)
	t.Logf("%d of 12 answers before, %d after, %d with the merged model", before, after, whole)
	if before > 6 || after < 10 || whole != after {
		t.Errorf("%d of 12 answers before, %d after, %d with the merged model", before, after, whole)
	}
	plain, with := succeed(t, "embed", "-m", bert, "big road"), succeed(t, "embed", "-m", bert, "--lora", out, "big road")
	if plain == with {
		t.Error("the adapter changes no vectors")
	}
}

// A reranker learns which document answers a query, from answers to others where there are no texts that answer nothing.
func TestFinetuneReranker(t *testing.T) {
	t.Parallel()
	model := reranker(t, "bert", nil, "cls.weight", "cls.bias", "cls.output.weight", "cls.output.bias")
	dir, all := t.TempDir(), questions(24)
	for name, record := range map[string]func(i int) map[string]any{
		"answers": func(i int) map[string]any { return map[string]any{"query": all[i][0], "positive": all[i][1]} },
		"negatives": func(i int) map[string]any {
			return map[string]any{"query": all[i][0], "positive": all[i][1], "negatives": []string{all[(i+1)%24][1], all[(i+5)%24][1]}}
		},
	} {
		file, out := jsonLines(t, dir, name+".jsonl", len(all), record), filepath.Join(dir, name+".gguf")
		said := succeed(t, "finetune", "-m", model, "--data", file, "--val-data", file, "-o", out, "--steps", "60", "--lr", "0.003", "--patience", "0")
		before, after := rightOf(t, said)
		if after < 80 || after < before+20 || !strings.Contains(said, "quern rerank -m") {
			t.Errorf("%s: %d%% right before, %d%% after: %s", name, before, after, said)
		}
		plain, with := found(t, all[:8], "-m", model), found(t, all[:8], "-m", model, "--lora", out)
		t.Logf("%s: %d of 8 answers were first before, %d after", name, plain, with)
		if with <= plain {
			t.Errorf("%s: %d of 8 answers were first before, %d after", name, plain, with)
		}
	}
}

// rightOf returns the first and the last share that is right, in percent.
func rightOf(t *testing.T, said string) (before, after int) {
	t.Helper()
	var all []int
	for _, line := range strings.Split(said, "\n") {
		if head, _, ok := strings.Cut(line, " % right)"); ok {
			n, err := strconv.Atoi(head[strings.LastIndexByte(head, '(')+1:])
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, n)
		}
	}
	if len(all) < 2 {
		t.Fatalf("got %q", said)
	}
	return all[0], all[len(all)-1]
}

// A classifier learns classes by their names, and by their numbers; others are refused.
func TestFinetuneClassifier(t *testing.T) {
	t.Parallel()
	model := classifier(t, "bert", nil, []string{"short", "long"}, ofClasses...)
	dir, all := t.TempDir(), questions(30)
	file := jsonLines(t, dir, "classes.jsonl", 30, func(i int) map[string]any {
		text, label := all[i][0], any("long")
		if i%2 == 0 {
			text, label = strings.Fields(text)[0], 0
		}
		return map[string]any{"text": text, "label": label}
	})
	out := filepath.Join(dir, "out.gguf")
	said := succeed(t, "finetune", "-m", model, "--data", file, "--val-data", file, "-o", out, "--steps", "30", "--lr", "0.003", "--patience", "0")
	if _, after := rightOf(t, said); after < 90 {
		t.Errorf("%d%% right: %s", after, said)
	}
	for text, want := range map[string]string{"gift": "short", "big happy child": "long"} {
		if got := succeed(t, "classify", "-m", model, "--lora", out, text); !strings.HasPrefix(got, want+"\t") {
			t.Errorf("%q is %q, want %s", text, got, want)
		}
	}
	// The classifier's own matrix alone: what was trained is what is served, with the adapter or merged.
	head, merged := filepath.Join(dir, "head.gguf"), filepath.Join(dir, "merged.gguf")
	own := []string{"finetune", "-m", model, "--data", file, "--val-split", "0", "--steps", "60", "--lr", "0.03", "--targets", "cls.output"}
	succeed(t, append(own, "-o", head)...)
	succeed(t, "merge-lora", model, head, "-o", merged)
	plain, with := succeed(t, "classify", "-m", model, "gift"), succeed(t, "classify", "-m", model, "--lora", head, "gift")
	if whole := succeed(t, "classify", "-m", merged, "gift"); !strings.HasPrefix(with, "short\t") || with == plain || whole != with {
		t.Errorf("%q without the adapter, %q with it, %q merged", plain, with, whole)
	}
	quern(t, append(own, "-o", filepath.Join(dir, "peft"))...).refused(t, 1, "cls.output", "without it")
	// All weights, those of the classifier too.
	whole := filepath.Join(dir, "whole.gguf")
	said = succeed(t, "finetune", "-m", model, "--data", file, "--val-data", file, "-o", whole, "--full", "F32", "--steps", "40", "--lr", "3e-4", "--patience", "0")
	if _, after := rightOf(t, said); after < 90 || !strings.Contains(said, "quern classify -m "+whole) {
		t.Errorf("%d%% right: %s", after, said)
	}
	if got := succeed(t, "classify", "-m", whole, "gift"); !strings.HasPrefix(got, "short\t") {
		t.Errorf("got %q", got)
	}
	wrong := writeFile(t, dir, "wrong.jsonl", `{"text":"a","label":"short"}`+"\n"+`{"text":"b","label":"green"}`+"\n")
	quern(t, "finetune", "-m", model, "--data", wrong, "-o", out, "--force").refused(t, 1, "wrong.jsonl:2", "green")
	several := writeFile(t, dir, "several.jsonl", `{"text":"a","label":"short"}`+"\n"+`{"text":"b","label":["short","long"]}`+"\n")
	quern(t, "finetune", "-m", model, "--data", several, "-o", out, "--force").refused(t, 1, "several.jsonl:2: its text", "one class")
}

func TestFinetuneComparisonsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bert, out := testdata.Path(t, "archs/bert.gguf"), filepath.Join(dir, "out.gguf")
	for _, c := range []struct{ model, text, want string }{
		{bert, `{"prompt":"a","completion":"b"}`, "makes no texts"},
		{bert, `{"text":"a","label":"b"}` + "\n" + `{"text":"c","label":"b"}`, "no classifier"},
		{bert, `{"query":"a","positive":"b"}` + "\n" + `{"sentence1":"a","sentence2":"b","score":1}`, "in.jsonl:2: query"},
		{bert, `{"sentence1":"a","sentence2":"b","score":4}`, "from -1 to 1"},
		{bert, `{"query":"a","positive":""}`, "positive"},
		{bert, `{"query":"a","positive":["b","c"],"negative":"d","margin":1}`, "margin"},
		{bert, `{"query":"","positive":"b"}`, "query"},
		{demo.Name, `{"text":"a","label":[]}`, "no classifier"},
		{demo.Name, `{"text":"a","label":1.5}`, "label"},
	} {
		file := writeFile(t, dir, "in.jsonl", c.text+"\n")
		quern(t, "finetune", "-m", c.model, "--data", file, "-o", out).refused(t, 1, c.want)
	}
}
