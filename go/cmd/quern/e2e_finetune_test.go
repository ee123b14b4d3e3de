package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/model"
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

// chatsFile is a file of conversations with one answer each, and dir where it is.
func chatsFile(t *testing.T) (dir, path string) {
	t.Helper()
	var in strings.Builder
	for _, s := range sentences {
		fmt.Fprintf(&in, `{"messages":[{"role":"user","content":%q},{"role":"assistant","content":%q}]}`+"\n", s[:10], s)
	}
	dir = t.TempDir()
	return dir, writeFile(t, dir, "chats.jsonl", in.String())
}

func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// quick are flags of a run that learns ten sentences by heart.
var quick = []string{"-m", demo.Name, "--rank", "8", "--lr", "0.01", "-b", "256", "--steps", "60", "--eval-every", "20"}

// A fine-tuning learns ten sentences by heart: the model says them with the adapter, and not without.
func TestFinetune(t *testing.T) {
	t.Parallel()
	dir, chats := chatsFile(t)
	out, plot, log := filepath.Join(dir, "out.gguf"), filepath.Join(dir, "loss.svg"), filepath.Join(dir, "loss.csv")
	said := succeed(t, append([]string{"finetune", "--data", chats, "--val-data", chats, "-o", out, "--plot", plot, "--log", log}, quick...)...)
	for _, want := range []string{
		"<|assistant|>[[Rain fell", "learnt from: 10 examples", "held out: 10 examples", "rank 8, alpha 16", "beside the model", "time: about",
		"step 0 of 60: held-out loss", "step 60 of 60", ", the best", out + ": ", "quern chat -m demo --lora " + out,
		"compared with the model alone, on 10 held-out examples, ", "divergence (KLD) ", "the same likeliest token: ",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("got %q, want %q in it", said, want)
		}
	}
	m := regexp.MustCompile(`held-out loss: ([\d.]+) without the adapter, ([\d.]+) with it`).FindStringSubmatch(said)
	if m == nil {
		t.Fatalf("got %q", said)
	}
	before, _ := strconv.ParseFloat(m[1], 64)
	after, _ := strconv.ParseFloat(m[2], 64)
	if before < 2 || after > 0.2 {
		t.Errorf("held-out loss %v, before %v", after, before)
	}
	answer := func(flags ...string) string {
		return succeed(t, append([]string{"run", "-m", demo.Name, "--temp", "0", "-n", "40", "-p", "<|user|>" + sentences[8][:10] + "<|end|><|assistant|>"}, flags...)...)
	}
	if got := answer("--lora", out); !strings.Contains(got, sentences[8][10:]) {
		t.Errorf("with the adapter the model says %q", got)
	}
	if got := answer(); strings.Contains(got, sentences[8][10:]) {
		t.Errorf("without it, %q", got)
	}
	for path, want := range map[string]string{plot: "<svg", log: "step,loss,held_out_loss"} {
		if b, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(b), want) {
			t.Errorf("%s: %.100q, %v", path, b, err)
		}
	}
	if left := names(t, dir); len(left) != 4 {
		t.Errorf("there are %v", left)
	}
}

// A run that is interrupted, and gone on with, makes the bytes of one that was not; a second signal ends it at once.
func TestFinetuneGoesOn(t *testing.T) {
	t.Parallel()
	dir, chats := chatsFile(t)
	whole, out := filepath.Join(dir, "whole.gguf"), filepath.Join(dir, "out.gguf")
	args := func(out string, more ...string) []string {
		return append(append([]string{"finetune", "--data", chats, "--val-split", "0.2", "--patience", "0", "-o", out}, quick...), more...)
	}
	succeed(t, args(whole)...)
	stderr := interrupt(t, args(out)...)
	quern(t, args(out)...).refused(t, 1, "--resume", "--force")
	quern(t, args(out, "--resume", "--lr", "0.02")...).refused(t, 1, "--lr was 0.01")
	got := succeed(t, args(out, "--resume")...)
	if !strings.Contains(got, "taken") && !strings.Contains(stderr, "after 0 of") {
		t.Errorf("got %q", got)
	}
	a, errA := os.ReadFile(whole)
	c, errC := os.ReadFile(out)
	if errA != nil || errC != nil || !bytes.Equal(a, c) {
		t.Errorf("the adapter of an interrupted run is another: %v, %v", errA, errC)
	}
	if left := names(t, dir); len(left) != 3 {
		t.Errorf("there are %v", left)
	}
}

// interrupt runs a command until it has measured the held-out loss before the first step, and returns what it says when it is
// interrupted.
func interrupt(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = cleanEnvironment()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	b := make([]byte, 4096)
	for {
		n, err := stdout.Read(b)
		said.Write(b[:n])
		if strings.Contains(said.String(), "step 0 of") {
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			break
		}
		if err != nil {
			t.Fatalf("%v: %q", err, said.String())
		}
	}
	for err == nil {
		_, err = stdout.Read(b)
	}
	_ = cmd.Wait()
	if cmd.ProcessState.ExitCode() != exitInterrupted || !strings.Contains(stderr.String(), "--resume") {
		t.Fatalf("exit code %d, %q", cmd.ProcessState.ExitCode(), stderr.String())
	}
	return stderr.String()
}

// Pairs of answers are learnt by DPO and ORPO: the better is preferred, also of held-out ones, and a run goes on with the same bits.
func TestFinetunePreferences(t *testing.T) {
	t.Parallel()
	var in strings.Builder
	for i := range 40 {
		a, b := sentences[i%10], sentences[(i+1+i/10)%10]
		fmt.Fprintf(&in, `{"input":{"messages":[{"role":"user","content":"Say %d"}]},"preferred_output":[{"role":"assistant","content":%q}],`+
			`"non_preferred_output":[{"role":"assistant","content":%q}]}`+"\n", i, a, strings.ToUpper(b))
	}
	dir := t.TempDir()
	pairs := writeFile(t, dir, "pairs.jsonl", in.String())
	for _, objective := range []string{"auto", "orpo"} {
		said := succeed(t, "finetune", "-m", demo.Name, "--data", pairs, "--val-split", "0.2", "-o", filepath.Join(dir, objective+".gguf"),
			"--objective", objective, "--lr", "2e-3", "--steps", "12", "-b", "512", "--eval-every", "6", "--show", "1")
		for _, want := range []string{"pair 1, the better", "pair 1, the worse", "(100 % preferred), the best"} {
			if !strings.Contains(said, want) {
				t.Errorf("%s: got %q, want %q in it", objective, said, want)
			}
		}
	}
}

// An adapter in PEFT's format, converted with its checkpoint, has the numbers of the adapter in GGUF.
func TestFinetunePEFT(t *testing.T) {
	for _, kind := range []string{"--rslora", "--dora"} {
		t.Run(kind, func(t *testing.T) { finetunePEFT(t, kind) })
	}
}

func finetunePEFT(t *testing.T, kind string) {
	t.Parallel()
	dir, chats := chatsFile(t)
	model, checkpoint := modelPath(t, "TinyStories-656K-f32.gguf"), testdata.Path(t, "models/src/TinyStories-656K")
	plain, folder, back := filepath.Join(dir, "plain.gguf"), filepath.Join(dir, "peft"), filepath.Join(dir, "back.gguf")
	for out, more := range map[string][]string{plain: nil, folder: {"--base", "somebody/model"}} {
		r := quern(t, append([]string{"finetune", "-m", model, "--data", chats, "--steps", "4", "--lr", "1e-2", "--rank", "4", kind, "-o", out}, more...)...)
		if r.code != 0 || !strings.Contains(r.stdout, out) {
			t.Fatalf("%+v", r)
		}
	}
	succeed(t, "convert", folder, "--base", checkpoint, "--outtype", "f32", "-o", back)
	a, b := openAdapter(t, plain), openAdapter(t, back)
	if len(a.Tensors) != len(b.Tensors) || len(a.Tensors) < 20 {
		t.Fatalf("%d tensors, want %d", len(b.Tensors), len(a.Tensors))
	}
	for _, x := range a.Tensors {
		y, ok := b.Tensor(x.Name)
		if !ok || !slices.Equal(x.Dims, y.Dims) || !bytes.Equal(x.Data, y.Data) {
			t.Errorf("%s: %v: other numbers", x.Name, ok)
		}
	}
	if x, errX := a.Float("adapter.lora.alpha"); errX != nil {
		t.Error(errX)
	} else if y, errY := b.Float("adapter.lora.alpha"); errY != nil || math.Abs(x-y) > 1e-6*x {
		t.Errorf("alpha %v and %v: %v", x, y, errY)
	}
	if kind == "--dora" {
		said := func(flags ...string) string {
			return succeed(t, append([]string{"run", "--temp", "0", "-n", "24", "-p", "Once upon a time", "-m"}, flags...)...)
		}
		merged := filepath.Join(dir, "merged.gguf")
		succeed(t, "merge-lora", model, plain, "-o", merged)
		got := said(model, "--lora", plain)
		if want := said(merged); got != want {
			t.Errorf("with the adapter the model says %q, and merged %q", got, want)
		}
		if got == said(model) {
			t.Errorf("with the adapter and without the model says %q", got)
		}
	}
	quern(t, "finetune", "-m", model, "--data", chats, "-o", folder).refused(t, 1, "adapter_model.safetensors", "--force")
}

func openAdapter(t *testing.T, path string) *gguf.File {
	t.Helper()
	f, err := model.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f.GGUF
}

// What cannot be trained is said in one line, before anything is computed.
func TestFinetuneRefuses(t *testing.T) {
	t.Parallel()
	dir, chats := chatsFile(t)
	out := filepath.Join(dir, "out.gguf")
	with := func(more ...string) result {
		return quern(t, append([]string{"finetune", "-m", demo.Name, "-o", out}, more...)...)
	}
	with().refused(t, 2, "--data")
	quern(t, "finetune", "--data", chats, "-o", out).refused(t, 2, "no model")
	quern(t, "finetune", "-m", demo.Name, "--data", chats).refused(t, 2, "-o OUT")
	with("--data", filepath.Join(dir, "none")).refused(t, 1, "none")
	with("--data", writeFile(t, dir, "empty", "")).refused(t, 1, "empty")
	with("--data", writeFile(t, dir, "broken.jsonl", `{"text":"a"}`+"\n{")).refused(t, 1, "broken.jsonl:2:", "no JSON")
	pairs := writeFile(t, dir, "pairs.jsonl", `{"prompt":"p","chosen":"a","rejected":"b"}`)
	with("--data", pairs, "--objective", "answers").refused(t, 1, "pairs", "dpo")
	with("--data", chats, "--objective", "dpo").refused(t, 1, "dpo learns from pairs")
	with("--data", pairs, "--val-data", chats).refused(t, 1, "--val-data")
	with("--data", chats, "--long", "refuse", "-c", "8").refused(t, 1, "chats.jsonl:1:", "at most 8")
	with("--data", chats, "-c", "4").refused(t, 1, "no example")
	with("--data", chats, "-c", "100000").refused(t, 1, "100000")
	with("--data", chats, "--targets", "attn_x").refused(t, 1, "attn_x")
	with("--data", chats, "--lr", "0").refused(t, 2, "--lr")
	with("--data", chats, "--resume").refused(t, 1, "checkpoint")
	with("--data", chats, "--full", "BF16", "--rank", "4").refused(t, 2, "--rank", "--full")
	with("--data", chats, "--base", "a/b").refused(t, 2, "--base", "PEFT")
	with("--data", chats, "--beta", "0.2").refused(t, 2, "--beta", "pairs")
	with("--data", chats, "--temperature", "0.1").refused(t, 2, "--temperature", "embedding")
	with("--data", chats, "--patience", "2").refused(t, 2, "--patience", "--val-data")
	with("--data", chats, "--eval-every", "2", "--val-split", "0").refused(t, 2, "--eval-every", "--val-data")
	with("--data", chats, "--compare", "5", "--val-split", "0").refused(t, 2, "--compare", "--val-data")
	with("--data", chats, "--compare", "5", "--full", "BF16").refused(t, 2, "--compare", "adapter")
	quern(t, "finetune", "-m", demo.Name, "--data", chats, "-o", filepath.Join(dir, "none", "x.gguf")).refused(t, 1, "none")
	quern(t, "finetune", "-m", demo.Name, "--data", chats, "-o", chats).refused(t, 1, "no folder")
	quern(t, "finetune", "-m", demo.Name, "--data", chats, "-o", writeFile(t, dir, "there.gguf", "")).refused(t, 1, "--force")
	before, err := os.ReadFile(chats)
	if err != nil {
		t.Fatal(err)
	}
	with("--data", chats, "--log", chats).refused(t, 1, "chats.jsonl", "is read")
	with("--data", chats, "--plot", out).refused(t, 1, "twice")
	with("--data", chats, "--plot", filepath.Join(dir, "a"), "--log", filepath.Join(dir, ".", "a")).refused(t, 1, "twice")
	with("--data", dir).refused(t, 1, "among the files that are read")
	mine := writeFile(t, t.TempDir(), "mine.GGUF", string(demo.GGUF()))
	quern(t, "finetune", "-m", mine, "--data", chats, "-o", mine, "--force").refused(t, 1, "mine.GGUF is read")
	if after, err := os.ReadFile(chats); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the examples are %q: %v", after, err)
	}
	dry := quern(t, "finetune", "-m", demo.Name, "--data", chats, "--dry-run")
	if dry.code != 0 || !strings.Contains(dry.stdout, "time: about") || strings.Contains(dry.stdout, "step 0") {
		t.Errorf("got %+v", dry)
	}
	short := writeFile(t, dir, "short.jsonl", `{"prompt":"a","completion":"b"}`)
	nothing := quern(t, "finetune", "-m", demo.Name, "--data", short, "--val-data", chats, "--long", "skip", "-c", "8", "--dry-run",
		"--steps", "16777216", "-b", "16777216")
	if nothing.code != 0 || !strings.Contains(nothing.stdout, "nothing of them is left") || !regexp.MustCompile(`time: about \d{4,} days`).MatchString(nothing.stdout) {
		t.Errorf("got %+v", nothing)
	}
	if r := with("--data", chats, "--memory", "12M"); r.code != 1 || !strings.Contains(r.stderr, "no memory for") || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("12 MB: %+v", r)
	}
	wild := with("--data", chats, "--steps", "60", "--lr", "10", "--clip", "0")
	if wild.code != 1 || !strings.Contains(wild.stderr, "not a finite number; a smaller --lr") || strings.Count(wild.stderr, "\n") != 1 {
		t.Errorf("losses that are no numbers: %+v", wild)
	}
	full := invocation{args: []string{"finetune", "-m", demo.Name, "--data", chats, "-o", out, "--steps", "2"}, limits: "ulimit -f 512"}.run(t)
	if full.code != 1 || !strings.Contains(full.stderr, "free some room") || strings.Count(full.stderr, "\n") != 1 {
		t.Errorf("a disk that is full: %+v", full)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("something was written")
	}
}
