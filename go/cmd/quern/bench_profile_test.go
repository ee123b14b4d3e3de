package main

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/bench"
)

// A profile's operations are those of the passes that were measured: as many
// calls, and the bytes of the file's own tensors.
func TestBenchProfile(t *testing.T) {
	path := tinyModel(t)
	file, err := openFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	layers, err := file.GGUF.Uint("llama.block_count")
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int64{} // of tensors, of all layers together
	for _, x := range file.GGUF.Tensors {
		name := strings.TrimSuffix(x.Name, ".weight")
		if rest, ok := strings.CutPrefix(name, "blk."); ok {
			_, name, _ = strings.Cut(rest, ".")
		}
		sizes[name] += int64(len(x.Data))
	}

	picture := filepath.Join(t.TempDir(), "profile.svg")
	measured := func(args ...string) []byte {
		t.Helper()
		return benched(t, append([]string{"--profile", "-m", path, "-p", "8", "-n", "3", "-r", "2", "-t", "2"}, args...)...)
	}
	var rows []bench.ProfileResult
	if err := json.Unmarshal(measured("-o", "json", "--plot", picture), &rows); err != nil {
		t.Fatal(err)
	}
	shares, matmuls := map[string]float64{}, 0
	for _, r := range rows {
		passes := 2 // of the prompt, one for each repetition
		if r.Gen > 0 {
			passes = 2 * 3
		}
		at := r.Case() + " " + r.Operation + " " + r.Tensors
		shares[r.Case()] += r.Share
		if r.BusyNS <= 0 || r.WaitNS < 0 || r.Calls%passes != 0 {
			t.Errorf("%s: %d calls, busy %d ns, waited %d", at, r.Calls, r.BusyNS, r.WaitNS)
		}
		if r.Operation != "Matmul" {
			continue
		}
		matmuls++
		want, calls := int64(0), passes*int(layers)
		for _, name := range strings.Fields(r.Tensors) {
			if sizes[name] == 0 {
				t.Errorf("%s: no tensor %q", at, name)
			}
			want += int64(passes) * sizes[name]
		}
		if r.Tensors == "output" || r.Tensors == "token_embd" {
			calls = passes
		}
		if r.Bytes != want || r.Calls != calls || r.GMACs <= 0 || r.RoofFraction == nil {
			t.Errorf("%s: %d bytes in %d calls, want %d in %d", at, r.Bytes, r.Calls, want, calls)
		}
	}
	if len(shares) != 2 || matmuls < 8 {
		t.Errorf("%d tests, %d products", len(shares), matmuls)
	}
	for name, s := range shares {
		if s < 0.999 || s > 1.001 {
			t.Errorf("%s: shares add up to %g", name, s)
		}
	}

	drawn, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	var svg struct {
		XMLName xml.Name
		Text    []string `xml:"text"`
		Rect    []struct {
			Width float64 `xml:"width,attr"`
		} `xml:"rect"`
	}
	if err := xml.Unmarshal(drawn, &svg); err != nil || svg.XMLName.Local != "svg" {
		t.Fatalf("the picture: %v, <%s>", err, svg.XMLName.Local)
	}
	all := strings.Join(svg.Text, "\n")
	for _, r := range rows {
		if !strings.Contains(all, r.Case()) || !strings.Contains(all, r.Tensors) {
			t.Errorf("no %s, %q in the picture", r.Case(), r.Tensors)
		}
	}
	for _, r := range svg.Rect {
		if r.Width < 0 || r.Width > 900 {
			t.Errorf("a bar of %g pixels", r.Width)
		}
	}

	table := string(measured("--no-roofline"))
	for _, s := range []string{" operation ", " of time |", " Matmul ", " Attend ", " ffn_down ", " pp8 |", " tg3 |", "\nbuild: "} {
		if !strings.Contains(table, s) {
			t.Errorf("no %q in:\n%s", s, table)
		}
	}
	if strings.Contains(table, "of roof") {
		t.Errorf("a roofline in:\n%s", table)
	}
}
