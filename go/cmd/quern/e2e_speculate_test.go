package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/scripted"
)

// headFor writes a head for a model.
func headFor(t *testing.T, model []byte, h scripted.Head) string {
	t.Helper()
	raw, err := h.GGUF(model)
	path := filepath.Join(t.TempDir(), "head.gguf")
	if err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A head drafts on a server, and changes no text.
func TestServeWithAHead(t *testing.T) {
	head := headFor(t, demo.GGUF(), scripted.Head{Arch: "dflash", Inputs: []int{0, 1}})
	plain := succeed(t, "run", "-m", demo.Name, "-p", "Once upon a time", "--temp", "0", "-n", "40", "--ignore-eos", "--speculate", "off")
	s := serve(t, "", "-m", demo.Name, "-md", head, "--speculate", "head")
	status, r := s.post("/completion", `{"prompt":"Once upon a time","n_predict":40,"temperature":0,"ignore_eos":true}`)
	if settings, _ := r["generation_settings"].(map[string]any); status != 200 || r["content"] != plain || settings["speculative.types"] != "head" {
		t.Errorf("%d: %v, want %q", status, r, plain)
	}
}

// Drafts are on by themselves, change no text, and are shown where they are used.
func TestSpeculation(t *testing.T) {
	const line = "Tom had a red ball and a blue hat. Mia had a red hat and a blue ball. "
	prompt := strings.Repeat(line, 4) + "Tom had a red"
	args := []string{"run", "-m", demo.Name, "-p", prompt, "--temp", "0", "-n", "60", "--ignore-eos"}
	plain := succeed(t, append(args, "--speculate", "off")...)
	for _, more := range [][]string{nil, {"--speculate", "ngram"}, {"--spec-type", "ngram-mod", "--draft-max", "64", "--draft-min", "2"}, {"--draft-p-min", "0.5"}} {
		if got := succeed(t, append(args, more...)...); got != plain {
			t.Errorf("%v: %q, without drafts %q", more, got, plain)
		}
	}
	if got := succeed(t, append(args, "-md", demo.Name, "-ngld", "0")...); got != plain {
		t.Errorf("with a draft model: %q, without %q", got, plain)
	}
	nextn := []string{"run", "-m", testdata.Path(t, "archs/qwen35.gguf"), "-p", "a b c", "--temp", "0", "-n", "40", "--ignore-eos", "--speculate"}
	if a, b := succeed(t, append(nextn, "off")...), succeed(t, append(nextn, "draft-mtp")...); a != b {
		t.Errorf("with a layer that drafts %q, without %q", b, a)
	}
	other := testdata.Path(t, "models/TinyStories-656K-f16.gguf")
	head := headFor(t, demo.GGUF(), scripted.Head{Arch: "eagle3", Inputs: []int{0, 1, 2}})
	for _, more := range []string{"auto", "head", "draft-eagle3", "off"} {
		if got := succeed(t, append(args, "-md", head, "--speculate", more)...); got != plain {
			t.Errorf("with a head, %s: %q, without %q", more, got, plain)
		}
	}
	quern(t, append(args, "-md", headFor(t, demo.GGUF(), scripted.Head{Arch: "eagle3", Inputs: []int{0, 1, 99}}))...).refused(t, 1, "head.gguf: it reads what goes into layer 99")
	quern(t, "run", "-m", other, "-p", "a", "-md", head).refused(t, 1, "head.gguf", "vocabulary")
	quern(t, "run", "-m", head, "-p", "a").refused(t, 1, "drafts tokens for another model", "-md")
	if r := quern(t, append(args, "-md", other)...); r.code != 0 || r.stdout != plain || !strings.Contains(r.stderr, "drafts by text: its vocabulary") {
		t.Errorf("with a draft model that has another vocabulary: %+v, without %q", r, plain)
	}
	quern(t, append(args, "-md", testdata.Path(t, "models/tiny-random-bert-mean-f16.gguf"))...).refused(t, 1, "draft model", "reads whole texts")
	quern(t, append(args, "-md", "no such file")...).refused(t, 1, "no such file")
	quern(t, append(args, "--speculate", "magic")...).refused(t, 2, "--speculate", "ngram")
	quern(t, append(args, "--draft-p-min", "2")...).refused(t, 2, "--draft-p-min", "0 to 1")

	s := serve(t, "", "-m", demo.Name, "--draft-max", "8", "-md", demo.Name)
	ask := func(more string) map[string]any {
		status, r := s.post("/completion", fmt.Sprintf(`{"prompt":%q,"n_predict":60,"temperature":0,"ignore_eos":true%s}`, prompt, more))
		if status != 200 {
			t.Fatalf("%d: %v", status, r)
		}
		return r
	}
	for i, more := range []string{"", "", `,"speculative.types":"none"`, `,"speculative.n_max":0`, `,"speculative.types":"ngram-simple","speculative.p_min":0.1`} {
		r := ask(more)
		if r["content"] != plain {
			t.Errorf("%s: %q, want %q", more, r["content"], plain)
		}
		timings, settings := r["timings"].(map[string]any), r["generation_settings"].(map[string]any)
		if drafts, ok := timings["draft_n"]; ok != (timings["draft_n_accepted"] != nil) || ok && (i == 2 || i == 3) {
			t.Errorf("%s: %v drafts, %v", more, drafts, timings)
		}
		if i < 2 && (settings["speculative.types"] != "auto" || settings["speculative.n_max"] != 8.0) || i == 2 && settings["speculative.types"] != "none" {
			t.Errorf("%s: settings %v, %v", more, settings["speculative.types"], settings["speculative.n_max"])
		}
	}
	// What else an answer depends on: the same with drafts as without. (Whether they pay, so that there are some, depends on the machine.)
	for _, more := range []string{
		`"temperature":0,"stop":["hat. Mia","Once"]`, `"temperature":0,"stop":["d bal"],"n_probs":3`, `"temperature":1.2,"seed":5,"min_p":0,"n_probs":2,"post_sampling_probs":true`,
		`"temperature":1,"seed":6,"mirostat":2,"mirostat_tau":3`, `"temperature":1,"seed":7,"dry_multiplier":0.8,"xtc_probability":0.5,"xtc_threshold":0.05`,
		`"temperature":1,"seed":8,"repeat_penalty":1.3,"frequency_penalty":0.5,"presence_penalty":0.2,"logit_bias":[[300,2]]`,
		`"temperature":1,"seed":9,"grammar":"root ::= (\" \" (\"red\" | \"blue\") \" \" (\"hat\" | \"ball\") \".\" | \" Mia had a\")+"`,
		`"temperature":0.9,"seed":10,"json_schema":{"type":"object","properties":{"colour":{"enum":["red","blue"]},"count":{"type":"integer"}},"required":["colour","count"]}`,
	} {
		var want map[string]any
		for _, types := range []string{"none", "auto", "ngram", "draft-simple"} {
			body := fmt.Sprintf(`{"prompt":%q,"n_predict":60,"ignore_eos":true,"cache_prompt":false,"speculative.types":%q,%s}`, prompt, types, more)
			status, r := s.post("/completion", body)
			if status != 200 {
				t.Fatalf("%s: %d %v", body, status, r)
			}
			got := map[string]any{}
			for _, field := range []string{"content", "stop_type", "stopping_word", "tokens_predicted", "completion_probabilities"} {
				got[field] = r[field]
			}
			if want == nil {
				want = got
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s: %v, without drafts %v", types, more, got, want)
			}
		}
	}
	if status, r := s.post("/completion", `{"prompt":"a","speculative.types":"magic"}`); status != 400 || !strings.Contains(fmt.Sprint(r), "speculative.types") {
		t.Errorf("%d: %v", status, r)
	}
	if status, metrics := s.get("/metrics"); status != 200 || !strings.Contains(metrics, "llamacpp:spec_decode_num_draft_tokens_total") || !strings.Contains(metrics, "quern_drafting_seconds_total{") ||
		!strings.Contains(metrics, "quern_draft_rested_passes_total{") {
		t.Errorf("metrics: %s", metrics)
	}
}

// A draft model's memory is counted before anything is loaded, and shown where its model's is. In a file of presets each model has
// its own.
func TestDraftModelsTakeMemory(t *testing.T) {
	other := testdata.Path(t, "models/TinyStories-656K-f16.gguf")
	args := []string{"-m", demo.Name, "-c", "512", "--weights", "packed"}
	limit := strconv.FormatUint(planOf(t, args...).Total+4<<20, 10) // one, and not another as large
	run := append([]string{"run", "-p", "x", "-n", "2"}, args...)
	succeed(t, append(run, "--memory", limit)...)
	quern(t, append(run, "--memory", limit, "-md", demo.Name)...).refused(t, 1, "it needs", "limit are free", "no draft model", "--model-draft")

	presets := filepath.Join(t.TempDir(), "models.ini")
	ini := fmt.Sprintf("[one]\nmodel = demo\nmd = %s\n\n[two]\nmodel = demo\nLLAMA_ARG_SPEC_DRAFT_MODEL = demo\n\n[three]\nmodel = demo\n\n[four]\nmodel = demo\nmodel-draft = /no/such.gguf\n", other)
	if err := os.WriteFile(presets, []byte(ini), 0o644); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "", "--models-preset", presets, "-c", "512")
	want := ""
	for _, name := range []string{"three", "one", "two"} {
		status, v := s.post("/completion", fmt.Sprintf(`{"model":%q,"prompt":"The dog","temperature":0,"n_predict":20,"ignore_eos":true}`, name))
		if want == "" {
			want = fmt.Sprint(v["content"])
		}
		if status != 200 || v["content"] != want {
			t.Errorf("%s: %d %v, want %q", name, status, v, want)
		}
	}
	if got := s.statuses(); !strings.Contains(got, "four unloaded failed") {
		t.Errorf("models %s", got)
	}
	var memory struct {
		Models []struct {
			ID    string
			Bytes uint64
			Draft *struct {
				Path        string
				Bytes, File uint64
				Context     int
			}
		}
	}
	s.read("/v1/memory", &memory)
	drafts := map[string]bool{"one": true, "two": true}
	for _, m := range memory.Models {
		if d := m.Draft; (d != nil) != drafts[m.ID] || d != nil && (d.Path == "" || d.Bytes == 0 || d.Bytes >= m.Bytes || d.File == 0 || d.Context == 0) {
			t.Errorf("%s: %d bytes, draft %+v", m.ID, m.Bytes, d)
		}
	}
	if _, metrics := s.get("/metrics"); len(memory.Models) != 3 || strings.Count(metrics, "quern_draft_model_bytes{") != 2 {
		t.Errorf("%+v; metrics %s", memory, metrics)
	}
	if got := succeed(t, "ps", "--host", s.socket); !strings.Contains(got, "one: TinyStories-656K-f16.gguf drafts for it") {
		t.Errorf("ps says %s", got)
	}
	quern(t, "serve", "--models-preset", presets, "-md", other).refused(t, 2, "--model-draft", "--models-preset")
}

// What drafts are worth is measured with a record of the text.
func TestBenchSpeculate(t *testing.T) {
	args := []string{"bench", "-m", demo.Name, "--speculate", "0,0.8,0.2+1", "--streams", "1,2", "-p", "8", "-n", "24", "-r", "1", "--no-roofline", "-o", "json",
		"--rounds", filepath.Join(t.TempDir(), "rounds")}
	succeed(t, args...)
	out := succeed(t, args...) // with the rounds of the first
	var rows []map[string]any
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 6 {
		t.Fatalf("%v: %s", err, out)
	}
	for i, r := range rows {
		if r["streams"] != []float64{1, 1, 1, 2, 2, 2}[i] || r["right"] != []float64{0, 0.8, 0.2}[i%3] || r["rival"] != []float64{0, 0, 1}[i%3] || r["plain_ms"].(float64) <= 0 || r["draft_ms"].(float64) <= 0 || r["bound"].(float64) < 1 ||
			r["rounds"] != 2.0 || r["low"].(float64) > r["speed_up"].(float64) || r["high"].(float64) < r["speed_up"].(float64) || r["evaluated"].(float64) < 1 {
			t.Errorf("row %d: %v", i, r)
		}
		if i%3 == 0 && r["accepted"] != 0.0 {
			t.Errorf("row %d: %v wrong drafts were accepted", i, r["accepted"])
		}
	}
	file := filepath.Join(t.TempDir(), "x.gguf")
	quern(t, "bench", "--synth", "tiny-delta+mtp", "-o", file)
	out = succeed(t, "bench", "-m", file, "--speculate", "0.8", "-p", "8", "-n", "24", "-r", "1", "--no-roofline", "-o", "json")
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 2 || rows[0]["from"] != "replay" || rows[1]["from"] != "mtp" {
		t.Errorf("%v: %s", err, out)
	}
	for _, bad := range []string{"1.5", "0.5+", "0.5+2", "+0.5", "0.5+0.5+0.5"} {
		quern(t, "bench", "-m", demo.Name, "--speculate", bad).refused(t, 2, "--speculate", "0 to 1")
	}
	text := filepath.Join(t.TempDir(), "story.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("Tom had a red ball and a blue hat. ", 4)), 0o600); err != nil {
		t.Fatal(err)
	}
	out = succeed(t, "bench", "-m", demo.Name, "--speculate", "off,auto,ngram+recent,model", "-f", text, "-md", demo.Name, "--temp", "0.7", "--streams", "1", "-n", "64", "-r", "1", "--no-roofline", "-o", "json")
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 4 {
		t.Fatalf("%v: %s", err, out)
	}
	for i, r := range rows {
		if r["from"] != []string{"off", "auto", "ngram,recent", "model"}[i] || r["text"] != text || r["by"] != demo.Name || r["n_prompt"].(float64) < 20 || i == 0 && r["drafts"] != 0.0 {
			t.Errorf("row %d: %v", i, r)
		}
	}
	succeed(t, "bench", "-m", demo.Name, "--speculate", "ngram", "-f", text, "-p", "5", "-n", "8", "-r", "1", "--no-roofline")
	quern(t, "bench", "-m", demo.Name, "--speculate", "ngram", "-f", text, "-p", "5000", "-n", "8").refused(t, 1, "story.txt has", "-p")
	quern(t, "bench", "-m", demo.Name, "--speculate", "ngram", "-f", "no such file").refused(t, 1, "no such file")
	quern(t, "bench", "-m", demo.Name, "--speculate", "ngram", "-p", "0").refused(t, 2, "-p")
	quern(t, "bench", "-m", demo.Name, "--speculate", "magic").refused(t, 2, "--speculate", "ngram+recent")
	for flag, value := range map[string]string{"streams": "2", "rounds": "x", "file": "x", "temp": "1", "model-draft": demo.Name} {
		quern(t, "bench", "-m", demo.Name, "--"+flag, value).refused(t, 2, "--"+flag, "--speculate")
	}
	quern(t, "bench", "-m", demo.Name, "--speculate", "0.5", "--rounds", file).refused(t, 1, "not a round")
	quern(t, "bench", "-m", demo.Name, "--speculate", "0.5", "--curve").refused(t, 2, "--speculate")
}
