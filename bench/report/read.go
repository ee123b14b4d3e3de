package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Results are what a folder has.
type results struct {
	dir     string
	pages   []result // newest first
	quality []quality
}

// A result is a page in Markdown.
type result struct {
	name, title, text string // name is the file's without .md; it begins with the day
	date              string // to the second, where the page says it
}

var dated = regexp.MustCompile(`(?m)^- date: (\d{4}-\S+)$`)

// A quality is what `quern compare --json` printed, from a file called name.
type quality struct {
	name   string
	Text   string
	Scored int `json:"scored_tokens"`
	Models []struct {
		Name       string
		FileBytes  float64 `json:"file_bytes"`
		Bits       float64 `json:"bits_per_weight"`
		Memory     float64 // reserved
		RSS        float64 // by which the process grew, in files of older versions
		Speed      float64 `json:"tokens_per_second"`
		PPL        struct{ Value float64 }
		Divergence *struct {
			KLD      struct{ Value float64 }
			SameTop  struct{ Value float64 } `json:"same_top"`
			PPLRatio struct{ Value float64 } `json:"ppl_ratio"`
		}
	}
}

// read reads the results in dir.
func read(dir string) (*results, error) {
	r := &results{dir: dir}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		switch filepath.Ext(path) {
		case ".md":
			b, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			title, _, _ := strings.Cut(string(b), "\n")
			if !strings.HasPrefix(title, "# ") {
				return nil, fmt.Errorf("%s: a page begins with its title, after \"# \"", path)
			}
			p := result{name: name, title: strings.TrimPrefix(title, "# "), text: string(b), date: name}
			if m := dated.FindStringSubmatch(p.text); m != nil {
				p.date = m[1]
			}
			r.pages = append(r.pages, p)
		case ".json":
			b, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			q := quality{name: name}
			if err := json.Unmarshal(b, &q); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			if len(q.Models) < 2 {
				return nil, fmt.Errorf("%s: not what quern compare --json prints", path)
			}
			r.quality = append(r.quality, q)
		}
	}
	slices.SortStableFunc(r.pages, func(a, b result) int { return cmp.Compare(b.date, a.date) })
	if len(r.pages) == 0 {
		return nil, fmt.Errorf("%s has no results", dir)
	}
	return r, nil
}

// A speeds is the table of tests of a model beside other programs.
type speeds struct {
	page, model string
	peers       []string
	tests       []string
	ours        []float64
	theirs      [][]float64 // by peer
	roof        []float64   // 0 where there is none
}

var heading = regexp.MustCompile(`(?m)^## (.+)$`)

// speeds returns the newest table of each model beside peers, in the order of the models' names.
func (r *results) speeds() []speeds {
	newest := map[string]speeds{}
	var models []string
	for _, p := range r.pages {
		at := heading.FindAllStringSubmatchIndex(p.text, -1)
		for i, m := range at {
			end := len(p.text)
			if i+1 < len(at) {
				end = at[i+1][0]
			}
			s, ok := readSpeeds(p.text[m[1]:end])
			model := p.text[m[2]:m[3]]
			if _, known := newest[model]; ok && !known {
				s.page, s.model = p.name, model
				newest[model] = s
				models = append(models, model)
			}
		}
	}
	// Those that say most first: the largest, then by name.
	slices.SortFunc(models, func(a, b string) int { return cmp.Or(cmp.Compare(billions(b), billions(a)), cmp.Compare(a, b)) })
	var all []speeds
	for _, m := range models {
		all = append(all, newest[m])
	}
	return all
}

var inBillions = regexp.MustCompile(`(?i)(?:^|[^0-9a-z])([0-9]+(?:\.[0-9]+)?)b(?:[^a-z]|$)`)

// billions returns the parameters that a model's name tells; 0 if it tells none.
func billions(model string) float64 {
	m := inBillions.FindStringSubmatch(model)
	if m == nil {
		return 0
	}
	v, _ := strconv.ParseFloat(m[1], 64) // the pattern has only numbers
	return v
}

// ofChange reports whether one of the programs beside is Quern as it was before.
func (s *speeds) ofChange() bool {
	return slices.ContainsFunc(s.peers, func(name string) bool { return strings.HasPrefix(name, "before") })
}

// readSpeeds reads the first table of a section, if it is one of tests beside peers.
func readSpeeds(text string) (speeds, bool) {
	var s speeds
	rows := table(text)
	if len(rows) < 2 || len(rows[0]) < 4 || rows[0][0] != "test" || rows[0][1] != "ours t/s" {
		return s, false
	}
	var columns []int
	roof := -1
	for i, head := range rows[0][2:] {
		switch name, ok := strings.CutSuffix(head, " t/s"); {
		case ok && name == "roofline":
			roof = i + 2
		case ok:
			columns, s.peers = append(columns, i+2), append(s.peers, name)
		}
	}
	s.theirs = make([][]float64, len(columns))
	for _, row := range rows[1:] {
		ours, err := strconv.ParseFloat(row[1], 64)
		if err != nil {
			return s, false
		}
		s.tests, s.ours = append(s.tests, row[0]), append(s.ours, ours)
		for k, c := range columns {
			v, err := strconv.ParseFloat(row[c], 64)
			if err != nil {
				return s, false
			}
			s.theirs[k] = append(s.theirs[k], v)
		}
		most := 0.0
		if roof >= 0 {
			most, _ = strconv.ParseFloat(row[roof], 64) // empty: not measured
		}
		s.roof = append(s.roof, most)
	}
	return s, len(columns) > 0
}

// table returns the cells of the first table in text, without the line below its head.
func table(text string) (rows [][]string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if rows != nil {
				break
			}
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		if rows != nil && len(cells) != len(rows[0]) {
			return nil
		}
		rows = append(rows, cells)
	}
	if len(rows) < 3 {
		return nil
	}
	return append(rows[:1], rows[2:]...)
}

var picture = regexp.MustCompile(`!\[([^\]]*)\]\(([^)/]+\.svg)\)`)

// A curve is the plot of tokens/s against tokens in a pass of a model.
type curve struct{ page, title, file string }

// curves returns the newest curve of each model.
func (r *results) curves() []curve {
	seen := map[string]bool{}
	var all []curve
	for _, p := range r.pages {
		for _, m := range picture.FindAllStringSubmatch(p.text, -1) {
			if title, ok := strings.CutPrefix(m[1], "tokens/s against n, of "); ok && !seen[title] {
				seen[title] = true
				all = append(all, curve{p.name, title, m[2]})
			}
		}
	}
	return all
}
