package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/scripted"
)

// firstLayers is a file of the demo model's first n layers: a small model with its vocabulary, which guesses badly.
func firstLayers(t *testing.T, dir string, n int) string {
	t.Helper()
	f, err := gguf.Parse(demo.GGUF())
	if err != nil {
		t.Fatal(err)
	}
	w := gguf.NewWriter()
	for _, kv := range f.KVs {
		if kv.Key == "llama.block_count" {
			kv.Value = uint32(n)
		}
		w.Set(kv.Key, kv.Value)
	}
	for _, x := range f.Tensors {
		var layer int
		if k, _ := fmt.Sscanf(x.Name, "blk.%d.", &layer); k == 1 && layer >= n {
			continue
		}
		w.AddTensor(x.Name, x.Type, x.Dims, gguf.Bytes(x.Data))
	}
	var out bytes.Buffer
	if _, err := w.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	return writeFile(t, dir, "small.gguf", out.String())
}

// beginningsFile is a file of prompts: of texts, and of conversations that wait for an answer.
func beginningsFile(t *testing.T, dir string, n int) string {
	t.Helper()
	var in strings.Builder
	kinds, names := strings.Fields("little big sad happy old shy"), strings.Fields("fox girl boy cat bear dog frog king bird mouse")
	for i := range n {
		fmt.Fprintf(&in, `{"text":"Once there was a %s %s who %s"}`+"\n", kinds[i%6], names[i/6%10], []string{"wanted to", "could not"}[i%2])
	}
	return writeFile(t, dir, "prompts.jsonl", in.String())
}

var acceptedLine = regexp.MustCompile(`drafts (before|after): ([\d.]+) % accepted of 4 at a time on (\d+) held-out texts, ([\d.]+) in a pass`)

// draftsOf returns the shares of accepted drafts before and after a run.
func draftsOf(t *testing.T, said string) (before, after float64) {
	t.Helper()
	for _, m := range acceptedLine.FindAllStringSubmatch(said, -1) {
		v, _ := strconv.ParseFloat(m[2], 64)
		if m[1] == "before" {
			before = v
		} else {
			after = v
		}
	}
	if strings.Count(said, "drafts after") != 1 {
		t.Fatalf("got %q", said)
	}
	return before, after
}

// A small model learns a larger one's own answers, as an adapter and as a whole, and more of its drafts are accepted after prompts
// that it has not seen. What is accepted changes no text.
func TestFinetuneDraftsForAModel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	small, prompts, out := firstLayers(t, dir, 2), beginningsFile(t, dir, 60), filepath.Join(dir, "out.gguf")
	args := []string{"finetune", "-m", small, "--draft-for", demo.Name, "--data", prompts, "-o", out, "--answer-tokens", "24", "--val-split", "0.2",
		"-b", "512", "--steps", "24", "--eval-every", "12", "--lr", "4e-3"}
	for _, more := range [][]string{{"--full", "BF16", "--lr", "2e-3"}, {"--force"}} {
		said := succeed(t, append(args, more...)...)
		before, after := draftsOf(t, said)
		t.Logf("%v: %v %%, before %v %%", more, after, before)
		if before > 20 || after < before+15 {
			t.Errorf("%v: %v %% are accepted after it, %v %% before: %s", more, after, before, said)
		}
		for _, want := range []string{"answers of demo: 60, ", "to use it: quern serve -m demo --model-draft " + out, "<|begin|>Once there was a little fox who wanted to[["} {
			if !strings.Contains(said, want) {
				t.Errorf("got %q, want %q in it", said, want)
			}
		}
		if left := names(t, dir); len(left) != 3 {
			t.Errorf("there are %v", left)
		}
		generate := []string{"run", "-m", demo.Name, "-p", "Once there was a big boy who", "--temp", "0", "-n", "40"}
		if a, b := succeed(t, generate...), succeed(t, append(generate, "-md", out)...); a != b {
			t.Errorf("with drafts %q, without %q", b, a)
		}
	}
	// All drafts of a model for itself are accepted, of its own answers that the examples have as well.
	story := strings.TrimSuffix(succeed(t, "run", "-m", demo.Name, "-p", "Once there was a big boy who", "--temp", "0", "-n", "20", "--ignore-eos"), "\n")
	var in strings.Builder
	for i := range 2 {
		line, _ := json.Marshal(map[string]string{"prompt": "Once there was a big boy who", "completion": story[:len(story)/(i+1)]})
		in.Write(append(line, '\n'))
	}
	own := writeFile(t, dir, "own.jsonl", in.String())
	said := succeed(t, "finetune", "-m", demo.Name, "--draft-for", demo.Name, "--own-answers", "--data", own, "--val-data", own, "-o", out, "--steps", "1", "--lr", "1e-9", "--force")
	if before, after := draftsOf(t, said); before < 80 || after < 80 { // the ends of the texts are not the model's
		t.Errorf("%v, %v %%: %s", before, after, said)
	}
}

// interruptAt runs quern until it says something, and interrupts it then.
func interruptAt(t *testing.T, what string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = cleanEnvironment()
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	for b := make([]byte, 4096); !strings.Contains(said.String(), what); {
		n, err := stdout.Read(b)
		if said.Write(b[:n]); err != nil {
			t.Fatalf("%v: %q", err, said.String())
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_, _ = said.ReadFrom(stdout)
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != exitInterrupted {
		t.Fatalf("exit code %d, %q", cmd.ProcessState.ExitCode(), said.String())
	}
}

// A run that is interrupted goes on with the answers that there are, and makes the bytes of one that was not.
func TestFinetuneDraftsGoOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	small, prompts := firstLayers(t, dir, 1), beginningsFile(t, dir, 30)
	whole, out := filepath.Join(dir, "whole.gguf"), filepath.Join(dir, "out.gguf")
	args := func(out string, more ...string) []string {
		return append([]string{"finetune", "-m", small, "--draft-for", demo.Name, "--data", prompts, "-o", out, "--answer-tokens", "24", "--answer-temp", "0.8",
			"--seed", "3", "--val-split", "0.2", "-b", "512", "--steps", "40", "--patience", "0", "--lr", "4e-3"}, more...)
	}
	succeed(t, args(whole)...)
	interruptAt(t, "step 0 of", args(out)...)
	// As if it had been interrupted while answers were written.
	answers, checkpoint := filepath.Join(dir, "out.gguf.answers.json"), filepath.Join(dir, "out.gguf.checkpoint.safetensors")
	if info, err := os.Stat(answers); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("answers: %v, %v", info, err)
	}
	var saved map[string]any
	text, err := os.ReadFile(answers)
	if err == nil {
		err = json.Unmarshal(text, &saved)
	}
	if err != nil {
		t.Fatal(err)
	}
	list := saved["answers"].([]any)
	for i := range list {
		if i%3 > 0 {
			list[i] = nil
		}
	}
	if text, err = json.Marshal(saved); err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, "out.gguf.answers.json", string(text))
	if err := os.Remove(checkpoint); err != nil {
		t.Fatal(err)
	}
	quern(t, args(out)...).refused(t, 1, "out.gguf.answers.json", "--resume", "--force")
	quern(t, args(out, "--resume", "--answer-temp", "0.7")...).refused(t, 1, "out.gguf.answers.json", "are not those that the run began with")
	writeFile(t, dir, "out.gguf.answers.json", "[1]")
	quern(t, args(out, "--resume")...).refused(t, 1, "out.gguf.checkpoint.safetensors")
	writeFile(t, dir, "out.gguf.answers.json", string(text))
	if got := succeed(t, args(out, "--resume")...); !strings.Contains(got, "; 20 written in") {
		t.Errorf("got %q", got)
	}
	a, errA := os.ReadFile(whole)
	b, errB := os.ReadFile(out)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("the model of an interrupted run is another: %v, %v", errA, errB)
	}
	if left := names(t, dir); len(left) != 4 {
		t.Errorf("there are %v", left)
	}
}

// What cannot draft, or cannot be learnt from, is one line.
func TestFinetuneDraftsRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	prompts, out := beginningsFile(t, dir, 4), filepath.Join(dir, "out.gguf")
	pairs := writeFile(t, dir, "pairs.jsonl", `{"prompt":"a","chosen":"b","rejected":"c"}`+"\n")
	asked := writeFile(t, dir, "asked.jsonl", `{"messages":[{"role":"user","content":"Who?"}]}`+"\n")
	encoder, other := testdata.Path(t, "models/tiny-random-bert-mean-f16.gguf"), testdata.Path(t, "models/TinyStories-656K-f16.gguf")
	head := headFor(t, demo.GGUF(), scripted.Head{Arch: "eagle3", Inputs: []int{0, 1, 2}})
	flags := func(m, target, data string, more ...string) []string {
		return append([]string{"finetune", "-m", m, "--draft-for", target, "--data", data, "-o", out}, more...)
	}
	for _, test := range []struct {
		args  []string
		code  int
		words []string
	}{
		{flags(encoder, demo.Name, prompts), 1, []string{"bert", "reads whole texts"}},
		{flags(demo.Name, encoder, prompts), 1, []string{"bert", "reads whole texts"}},
		{flags(demo.Name, other, prompts), 1, []string{"cannot learn the tokens of", "vocabulary"}},
		{flags(demo.Name, "no such file.gguf", prompts), 1, []string{"no such file.gguf"}},
		{flags(head, demo.Name, prompts), 1, []string{"head.gguf"}},
		{flags(demo.Name, head, prompts), 1, []string{"head.gguf"}},
		{flags(demo.Name, demo.Name, pairs), 1, []string{"--draft-for", "pairs"}},
		{flags(demo.Name, demo.Name, asked, "--own-answers"), 1, []string{"asked.jsonl:1", "no message of the assistant"}},
		{flags(demo.Name, demo.Name, prompts, "-c", "4"), 1, []string{"-c"}},
		{flags(demo.Name, demo.Name, prompts, "-c", "4", "--long", "refuse"), 1, []string{"prompts.jsonl:1", "a prompt of"}},
		{flags(demo.Name, demo.Name, prompts, "--compare", "10"), 2, []string{"--compare"}},
		{flags(demo.Name, demo.Name, prompts, "--beta", "0.2"), 2, []string{"--beta", "--draft-for"}},
		{flags(demo.Name, demo.Name, prompts, "--dry-run"), 2, []string{"--dry-run", "--own-answers"}},
		{flags(demo.Name, demo.Name, prompts, "--ranks", "mpi"), 2, []string{"--ranks", "--draft-for"}},
		{flags(demo.Name, demo.Name, prompts, "--objective", "dpo"), 2, []string{"--objective"}},
		{flags(demo.Name, demo.Name, prompts, "--own-answers", "--answer-temp", "1"), 2, []string{"--answer-temp"}},
		{flags(demo.Name, demo.Name, prompts, "-o", filepath.Join(dir, "folder")), 2, []string{"--draft-for", ".gguf"}},
		{[]string{"finetune", "-m", demo.Name, "--data", prompts, "-o", out, "--answer-tokens", "5"}, 2, []string{"--answer-tokens", "--draft-for"}},
	} {
		quern(t, test.args...).refused(t, test.code, test.words...)
	}
	if left := names(t, dir); len(left) != 3 {
		t.Errorf("there are %v", left)
	}
}

// A head learns a model's own answers from nothing, and most of its drafts are accepted after prompts that it has not seen. A
// server drafts by it at once, and texts stay what they are.
func TestFinetuneDraftHead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	prompts, out, whole := beginningsFile(t, dir, 60), filepath.Join(dir, "out.gguf"), filepath.Join(dir, "whole.gguf")
	args := func(out string, more ...string) []string {
		return append([]string{"finetune", "-m", demo.Name, "--draft-head", "eagle3", "--data", prompts, "-o", out, "--answer-tokens", "24", "--val-split", "0.2",
			"-b", "512", "--steps", "24", "--eval-every", "12", "--lr", "2e-3", "--draft-vocab", "1024"}, more...)
	}
	said := succeed(t, args(whole)...)
	before, after := draftsOf(t, said)
	t.Logf("%v %%, before %v %%", after, before)
	if before > 5 || after < 30 {
		t.Errorf("%v %% are accepted after it, %v %% before: %s", after, before, said)
	}
	for _, want := range []string{"answers of demo: 60, ", "head: 1.", "to use it: quern serve -m demo --model-draft " + whole} {
		if !strings.Contains(said, want) {
			t.Errorf("got %q, want %q in it", said, want)
		}
	}
	interruptAt(t, "step 0 of", args(out)...)
	if r := quern(t, args(out, "--resume", "--draft-vocab", "512")...); r.code != 1 || !strings.Contains(r.stderr, "--draft-vocab was 1024") {
		t.Errorf("another vocabulary: %+v", r)
	}
	succeed(t, args(out, "--resume", "--threads", "1")...)
	a, errA := os.ReadFile(whole)
	b, errB := os.ReadFile(out)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("the head of an interrupted run is another: %v, %v", errA, errB)
	}
	if left := names(t, dir); len(left) != 3 {
		t.Errorf("there are %v", left)
	}
	const prompt = "Once there was a big boy who"
	plain := succeed(t, "run", "-m", demo.Name, "-p", prompt, "--temp", "0", "-n", "40", "--ignore-eos", "--speculate", "off")
	server := serve(t, "", "-m", demo.Name, "--model-draft", out, "--speculate", "head")
	for range 3 {
		status, r := server.post("/completion", `{"prompt":"`+prompt+`","n_predict":40,"temperature":0,"ignore_eos":true}`)
		if status != 200 || r["content"] != plain {
			t.Errorf("%d: %v, want %q", status, r, plain)
		}
	}
	inspected := succeed(t, "inspect", out)
	for _, want := range []string{"eagle3.target_layers", "d2t", "BF16"} {
		if !strings.Contains(inspected, want) {
			t.Errorf("no %s in %s", want, inspected)
		}
	}
}

// Models that can have no head, and flags that do not go together, are one line, before anything is answered.
func TestFinetuneDraftHeadRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	prompts, out := beginningsFile(t, dir, 4), filepath.Join(dir, "out.gguf")
	flags := func(m string, more ...string) []string {
		return append([]string{"finetune", "-m", m, "--draft-head", "eagle3", "--data", prompts, "-o", out}, more...)
	}
	head := headFor(t, demo.GGUF(), scripted.Head{Arch: "eagle3", Inputs: []int{0, 1, 2}})
	for _, test := range []struct {
		args  []string
		code  int
		words []string
	}{
		{flags(testdata.Path(t, "models/tiny-random-bert-mean-f16.gguf")), 1, []string{"bert", "reads whole texts"}},
		{flags(testdata.Path(t, "archs/qwen35.gguf")), 1, []string{"qwen35", "carries a state along the text"}},
		{flags(testdata.Path(t, "archs/gemma3n.gguf")), 1, []string{"gemma3n", "several streams"}},
		{flags(head), 1, []string{"head.gguf"}},
		{flags(demo.Name, "--draft-for", demo.Name), 2, []string{"--draft-head", "--draft-for"}},
		{flags(demo.Name, "--full", "BF16"), 2, []string{"--full", "--draft-head"}},
		{flags(demo.Name, "--rank", "4"), 2, []string{"--rank", "--draft-head"}},
		{flags(demo.Name, "--ranks", "mpi"), 2, []string{"--ranks", "--draft-head"}},
		{flags(demo.Name, "--objective", "dpo"), 2, []string{"--objective", "--draft-head"}},
		{flags(demo.Name, "--compare", "10"), 2, []string{"--compare"}},
		{flags(demo.Name, "--beta", "0.2"), 2, []string{"--beta", "--draft-head"}},
		{flags(demo.Name, "--temperature", "0.2"), 2, []string{"--temperature", "--draft-head"}},
		{flags(demo.Name, "--val-split", "0", "--eval-every", "2"), 2, []string{"--eval-every", "held-out"}},
		{flags(demo.Name, "--val-split", "0", "--patience", "2"), 2, []string{"--patience", "held-out"}},
		{flags(demo.Name, "--val-split", "0.01", "--patience", "2"), 2, []string{"--patience", "held-out"}},
		{flags(demo.Name, "--dry-run"), 2, []string{"--dry-run", "--own-answers"}},
		{flags(demo.Name, "--draft-head", "eagle9"), 2, []string{"--draft-head", "eagle3"}},
		{flags(demo.Name, "--draft-vocab", "1"), 2, []string{"--draft-vocab", "16"}},
		{flags(demo.Name, "-o", filepath.Join(dir, "folder")), 2, []string{"--draft-head", ".gguf"}},
		{[]string{"finetune", "-m", demo.Name, "--data", prompts, "-o", out, "--draft-vocab", "64"}, 2, []string{"--draft-vocab", "--draft-head"}},
	} {
		quern(t, test.args...).refused(t, test.code, test.words...)
	}
	if left := names(t, dir); len(left) > 2 {
		t.Errorf("there are %v", left)
	}
}

// A server keeps prompts and answers only where it is told to, in a file of its owner's up to a size, and a head learns from it.
func TestServeKeepsAnswers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kept := filepath.Join(dir, "kept.jsonl")
	ask := func(s *service, user, more string) {
		t.Helper()
		status, r := s.post("/v1/chat/completions", fmt.Sprintf(`{"messages":[{"role":"user","content":%q}],"temperature":0%s}`, user, more))
		if status != 200 {
			t.Errorf("%d: %v", status, r)
		}
	}
	s := serve(t, "", "-m", demo.Name, "--keep-answers", kept, "--keep-answers-size", "4k")
	ask(s, "Who is the dog?", "")
	ask(s, "Who is the secret?", `,"cache_prompt":false`)
	ask(s, "Who is not stored?", `,"store":false`)
	ask(s, "Who has a form?", `,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"enum":["Rover"]}}}`)
	ask(s, "Who is cut?", `,"max_tokens":1`)
	for i := range 40 {
		ask(s, fmt.Sprintf("Who is dog %d?", i), `,"stream":false`)
	}
	text, err := os.ReadFile(kept)
	info, statErr := os.Stat(kept)
	if err != nil || statErr != nil || info.Mode().Perm() != 0o600 || len(text) > 4096 || len(text) < 1024 {
		t.Fatalf("%v, %v, %v, %d bytes", err, statErr, info.Mode(), len(text))
	}
	lines := string(text)
	if !strings.HasPrefix(lines, `{"model":"demo","prompt":"`) || !strings.Contains(lines, "Who is the dog?") || !strings.HasSuffix(lines, "]}\n") {
		t.Errorf("kept %s", lines)
	}
	for _, left := range []string{"secret", "stored", "form", "cut"} {
		if strings.Contains(lines, left) {
			t.Errorf("%q is kept: %s", left, lines)
		}
	}
	said := succeed(t, "finetune", "-m", demo.Name, "--draft-head", "eagle3", "--own-answers", "--data", kept, "--dry-run", "--val-split", "0")
	if !strings.Contains(said, "Who is the dog?") || !strings.Contains(said, "[[") {
		t.Errorf("got %q", said)
	}
	first, _, _ := strings.Cut(lines, "\n")
	for word, other := range map[string]string{
		"of one model": first + "\n" + strings.Replace(first, `"demo"`, `"other"`, 1),
		"vocabulary":   strings.Replace(first, `"vocabulary":"`, `"vocabulary":"0`, 1),
	} {
		path := writeFile(t, dir, "other.jsonl", other)
		quern(t, "finetune", "-m", demo.Name, "--draft-head", "eagle3", "--own-answers", "--data", path, "--dry-run", "--val-split", "0").refused(t, 1, "other.jsonl:", word)
	}
	open := writeFile(t, dir, "open.jsonl", "")
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	quern(t, "serve", "-m", demo.Name, "--keep-answers", open).refused(t, 2, "--keep-answers", "0600")
	quern(t, "serve", "-m", demo.Name, "--keep-answers", dir).refused(t, 2, "--keep-answers")
}
