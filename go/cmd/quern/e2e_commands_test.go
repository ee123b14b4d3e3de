package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/internal/testdata"
)

func TestTokenizeMatchesReferences(t *testing.T) {
	checked := 0
	for name, refs := range references(t, "models/reference_numpy.json") {
		for _, ref := range refs {
			if ref.Prompt == "" {
				continue // the references put a space after BOS
			}
			checked++
			want := strings.Trim(strings.ReplaceAll(fmt.Sprint(ref.PromptIDs), ",", ""), "[]")
			m := modelPath(t, name)
			if got := succeed(t, "tokenize", "-m", m, "-p", ref.Prompt, "--ids"); got != want+"\n" {
				t.Errorf("%s %q: got %q, want %q", name, ref.Prompt, got, want)
			}
			_, bare, _ := strings.Cut(want, " ")
			if got := succeed(t, "tokenize", "-m", m, "-p", ref.Prompt, "--ids", "--no-special"); got != bare+"\n" {
				t.Errorf("%s %q --no-special: got %q, want %q", name, ref.Prompt, got, bare)
			}
			if got := succeed(t, "tokenize", "-m", m, "--detok", "-p", want); got != ref.Prompt {
				t.Errorf("%s --detok %s: got %q, want %q", name, want, got, ref.Prompt)
			}
			if got := succeed(t, "tokenize", "-m", m, "--detok", "--no-special", "-p", bare); got != ref.Prompt {
				t.Errorf("%s --detok --no-special %s: got %q, want %q", name, bare, got, ref.Prompt)
			}
		}
	}
	if checked == 0 {
		t.Error("no reference was used")
	}
}

func TestTokenizeVocabularies(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"llama-spm", "gpt-2"} {
		path := testdata.Path(t, "tokenizers/cases/ggml-vocab-"+name+".gguf")
		input, err := os.ReadFile(path + ".inp")
		if err != nil {
			t.Fatal(err)
		}
		output, err := os.ReadFile(path + ".out")
		if err != nil {
			t.Fatal(err)
		}
		texts := strings.Split(strings.TrimSuffix(string(input), "\n__ggml_vocab_test__\n"), "\n__ggml_vocab_test__\n")
		wants := strings.Split(strings.TrimSuffix(string(output), "\n"), "\n")
		if len(texts) != len(wants) {
			t.Fatalf("%s: %d texts and %d lines of ids", name, len(texts), len(wants))
		}
		for i := 0; i < len(texts); i += 4 { // the tokenizer's own tests take all
			want := strings.TrimSpace(wants[i])
			r := invocation{args: []string{"tokenize", "-m", path, "--ids", "--no-special"}, stdin: texts[i]}.run(t)
			if strings.TrimSpace(r.stdout) != want || r.stderr != "" {
				t.Errorf("%s %q: got %q and %q, want %q", name, texts[i], r.stdout, r.stderr, want)
			}
			if got := succeed(t, "tokenize", "-m", path, "--detok", "--no-special", "-p", want); got != texts[i] {
				t.Errorf("%s --detok %s: got %q, want %q", name, want, got, texts[i])
			}
		}
	}
}

func TestTokenizeShowsPieces(t *testing.T) {
	got := succeed(t, "tokenize", "-m", modelPath(t, "stories260K-f32.gguf"), "-p", "Once upon a\ntime")
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	var text strings.Builder
	for i, line := range lines {
		var id int
		if _, err := fmt.Sscanf(line, "%d -> '", &id); err != nil || !strings.HasSuffix(line, "'") {
			t.Errorf("got line %q, want id -> 'piece'", line)
		}
		_, piece, _ := strings.Cut(line, "'")
		if i > 0 {
			text.WriteString(strings.TrimSuffix(piece, "'"))
		}
	}
	if text.String() != ` Once upon a\ntime` {
		t.Errorf("got pieces %q", text.String())
	}
}

func TestTokenizeTakesLlamaFlags(t *testing.T) {
	plain := succeed(t, "tokenize", "-m", demo.Name, "--ids", "--no-special", "Once upon a time")
	want := fmt.Sprintf("%sTotal number of tokens: %d\n", plain, len(strings.Fields(plain)))
	r := invocation{args: []string{"tokenize", "-m", demo.Name, "--ids", "--no-bos", "--stdin", "--show-count", "--log-disable"}, stdin: "Once upon a time"}.run(t)
	if r.code != 0 || r.stdout != want || r.stderr != "" {
		t.Errorf("got %d, %q, %q, want %q", r.code, r.stdout, r.stderr, want)
	}
}

func TestInspectJSON(t *testing.T) {
	name := modelPath(t, "quant/TinyStories-656K-x2-Q4_K_M.gguf")
	var in inspection
	if err := json.Unmarshal([]byte(succeed(t, "inspect", "--json", name)), &in); err != nil {
		t.Fatal(err)
	}
	if in.Shards != 1 || in.Version != 3 || len(in.Tensors) < 10 || len(in.Types) < 3 {
		t.Errorf("got version %d, %d shards, %d tensors, %d types", in.Version, in.Shards, len(in.Tensors), len(in.Types))
	}
	var bytes, params uint64
	for _, typ := range in.Types {
		bytes += typ.Bytes
		params += typ.Params
	}
	fi, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if in.FileBytes != uint64(fi.Size()) || bytes >= in.FileBytes || bytes < in.FileBytes/2 || params != in.Params {
		t.Errorf("got %d bytes of tensors in a file of %d, %d of %d parameters", bytes, in.FileBytes, params, in.Params)
	}
	keys := map[string]metadataFact{}
	for _, m := range in.Metadata {
		keys[m.Key] = m
	}
	if v := keys["general.architecture"].Value; v != "llama" {
		t.Errorf("got architecture %v, want llama", v)
	}
	if c := keys["tokenizer.ggml.tokens"].Count; c == nil || *c != 2048 {
		t.Errorf("got tokens %v, want 2048", c)
	}
	if in.Memory == nil || in.Memory.Total == 0 || in.Refusal != "" {
		t.Errorf("got memory %+v, refusal %q", in.Memory, in.Refusal)
	}
}

func TestInspectCountsMemoryByContext(t *testing.T) {
	total := func(more ...string) uint64 {
		var in inspection
		args := append([]string{"inspect", "--json", demo.Name}, more...)
		if err := json.Unmarshal([]byte(succeed(t, args...)), &in); err != nil {
			t.Fatal(err)
		}
		return in.Memory.Total
	}
	small, large, wide := total("-c", "1024"), total("-c", "8192"), total("-c", "8192", "-ctk", "f32", "-ctv", "f32")
	if !(small < large && large < wide) {
		t.Errorf("got %d bytes at 1024, %d at 8192, %d at 8192 in f32; want more each time", small, large, wide)
	}
}

func TestInspectTotalSuffices(t *testing.T) {
	for _, name := range []string{demo.Name, "stories260K-f32.gguf", "quant/TinyStories-656K-x2-Q4_K_M.gguf"} {
		for _, flags := range [][]string{{"-c", "128", "-b", "1"}, {"-c", "300"}, {"-c", "128", "-b", "8", "--weights", "mapped"}} {
			args := append([]string{"-m", modelPath(t, name)}, flags...)
			var in inspection
			if err := json.Unmarshal([]byte(succeed(t, append([]string{"inspect", "--json"}, args...)...)), &in); err != nil {
				t.Fatal(err)
			}
			run := append([]string{"run", "-p", "Once", "-n", "2"}, args...)
			// What the program itself takes differs by some megabytes.
			succeed(t, append(run, "--memory", strconv.FormatUint(in.Memory.Total+16<<20, 10))...)
			// With packed weights a byte less is refused.
			less := append(run, "--memory", strconv.FormatUint(in.Memory.Total-in.Memory.Program-1, 10))
			if flags[len(flags)-1] != "mapped" {
				less = append(less, "--weights", "packed")
			}
			quern(t, less...).refused(t, 1, "limit are free (--memory)")
		}
	}
}

func TestInspectShowsWhatCannotRun(t *testing.T) {
	got := succeed(t, "inspect", unsupported(t))
	for _, want := range []string{"general.architecture", "graniteswitch", "token_embd.weight", "F16", "memory", "unknown: "} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in the output", want)
		}
	}
}

func TestPerplexityMatchesLadder(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile(modelPath(t, "REFERENCE.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (\S+) \| (\S+) \| PPL over 40 chunks for n_ctx=256 = (\S+) \+/- (\S+) \|$`)
	last := regexp.MustCompile(`\nPPL = (\S+) \+/- (\S+)\n$`)
	checked := 0
	for _, row := range rows.FindAllStringSubmatch(string(table), -1) {
		name, text, want, wantErr := row[1], row[2], number(t, row[3]), number(t, row[4])
		checked++
		t.Run(name, func(t *testing.T) {
			out := succeed(t, "perplexity", "-m", modelPath(t, name+".gguf"), "-f", testdata.Path(t, "corpus/"+text), "-c", "256", "--chunks", "40")
			m := last.FindStringSubmatch(out)
			if m == nil || !strings.HasPrefix(out, "[1]") || !strings.Contains(out, ",[40]") || strings.Contains(out, "[41]") {
				t.Fatalf("got %q, want 40 estimates and a last line", out)
			}
			got, gotErr := number(t, m[1]), number(t, m[2])
			if math.Abs(got/want-1) > 0.005 {
				t.Errorf("got %v, want %v within 0.5 %%", got, want)
			}
			if math.Abs(gotErr/wantErr-1) > 0.05 {
				t.Errorf("got an error of %v, want %v", gotErr, wantErr)
			}
		})
	}
	if checked < 15 {
		t.Errorf("only %d rows of the table were read", checked)
	}
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestDoctor(t *testing.T) {
	var d diagnosis
	if err := json.Unmarshal([]byte(succeed(t, "doctor", "--json")), &d); err != nil {
		t.Fatal(err)
	}
	if d.CPU.Cores < 1 || d.CPU.Logical < d.CPU.Cores || len(d.CPU.Affinity) == 0 || d.CPU.Reached > d.CPU.Cores {
		t.Errorf("got CPU %+v", d.CPU)
	}
	if d.WillDo.Threads < 1 || d.WillDo.Threads > d.CPU.Reached || d.WillDo.ThreadReason == "" || d.WillDo.Memory == 0 {
		t.Errorf("got %+v", d.WillDo)
	}
	if d.Measured == nil || d.Measured.Read < 1e8 || d.Measured.Int8 < 1e8 {
		t.Errorf("got measurements %+v", d.Measured)
	}
	var timed struct {
		Model struct {
			Prompts []struct {
				Tokens  int
				Seconds float64
			}
		}
	}
	text := succeed(t, "doctor", "--json", "--no-measure", "-m", "demo", "-c", "1024", "--prompt-time")
	if err := json.Unmarshal([]byte(text), &timed); err != nil || len(timed.Model.Prompts) != 2 {
		t.Fatalf("%v in %s", err, text)
	}
	if p := timed.Model.Prompts; p[0].Tokens != 1024 || p[1].Tokens != 256 || p[1].Seconds <= 0 || p[0].Seconds <= 0 {
		t.Errorf("times of prompts: %+v", p)
	}
	if text := succeed(t, "doctor", "--no-measure", "-m", "demo", "--prompt-time"); !regexp.MustCompile(`reading a prompt +about .*s for \d+ tokens`).MatchString(text) {
		t.Errorf("no time of a prompt in %s", text)
	}
	quern(t, "doctor", "--no-measure", "--prompt-time").refused(t, 2, "--prompt-time", "-m FILE")
	text = succeed(t, "doctor", "--no-measure")
	for _, want := range []string{"cores", "affinity", "instruction sets", "cpu quota", "huge pages", "quern will", "take at most"} {
		if !strings.Contains(text, want) {
			t.Errorf("got %q, want %q in it", text, want)
		}
	}
	r := invocation{args: []string{"doctor", "--no-measure"}, env: []string{isaVariable + "=scalar"}}.run(t)
	if !strings.Contains(r.stdout, "scalar (QUERN_ISA=scalar)") {
		t.Errorf("got %q, want the restriction in it", r.stdout)
	}
}

func TestVersion(t *testing.T) {
	var b build
	if err := json.Unmarshal([]byte(succeed(t, "version", "--json")), &b); err != nil {
		t.Fatal(err)
	}
	text := succeed(t, "version")
	for _, want := range []string{"quern " + b.Version + "\n", b.Commit, b.Go, b.Arch, b.Kernels} {
		if want == "" || !strings.Contains(text, want) {
			t.Errorf("got %q, want %q in it", text, want)
		}
	}
}

func TestHelp(t *testing.T) {
	alone := succeed(t)
	root := newRootCommand()
	if len(root.Commands()) < 20 {
		t.Errorf("only %d commands are there", len(root.Commands()))
	}
	for _, cmd := range root.Commands() {
		if !cmd.IsAvailableCommand() {
			continue
		}
		got := succeed(t, "help", cmd.Name())
		if !strings.Contains(got, "quern "+cmd.Name()) || !strings.Contains(got, "Flags:") {
			t.Errorf("help %s: got %q", cmd.Name(), got)
		}
		for line := range strings.Lines(got) {
			if utf8.RuneCountInString(line) > helpWidth+1 {
				t.Errorf("help %s: %q is longer than %d", cmd.Name(), line, helpWidth)
			}
		}
		if !strings.Contains(alone, "\n  "+cmd.Name()+" ") {
			t.Errorf("quern alone: got %q, want %q in it", alone, cmd.Name())
		}
	}
}

func TestCompletion(t *testing.T) {
	for shell, want := range map[string]string{"bash": "complete ", "zsh": "#compdef quern", "fish": "complete -c quern"} {
		if got := succeed(t, "completion", shell); !strings.Contains(got, want) || len(got) < 1000 {
			t.Errorf("%s: got %d bytes without %q", shell, len(got), want)
		}
	}
	if got := quern(t, "__complete", "run", "--temp").stdout; !strings.Contains(got, "--temp\t") {
		t.Errorf("got %q, want --temp", got)
	}
	for args, want := range map[string]string{
		"run --weights ": "auto\npacked\nmapped\nstreamed\n", "serve --cache-type-k ": "i16\nf16\n", "run -m ": ":0\n", "rm ": ":0\n",
	} {
		if got := quern(t, append([]string{"__complete"}, strings.Split(args, " ")...)...).stdout; !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", args, got, want)
		}
	}
}
