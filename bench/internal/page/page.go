// Package page writes the pages of results: tables, plots, properties of the machine,
// and file names.
package page

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A Grid is a table in Markdown. All columns but the first are numbers.
type Grid struct {
	Head []string
	Rows [][]string
}

// Add appends a row.
func (g *Grid) Add(cells ...string) { g.Rows = append(g.Rows, cells) }

// Write prints the table.
func (g *Grid) Write(w io.Writer) {
	fmt.Fprintf(w, "| %s |\n| --- |%s\n", strings.Join(g.Head, " | "), strings.Repeat(" ---: |", len(g.Head)-1))
	for _, row := range g.Rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}
}

// CheckTopic validates a topic, which is part of file names.
func CheckTopic(topic string) error {
	if topic == "" || topic == "." || topic == ".." || topic != filepath.Base(topic) {
		return fmt.Errorf("topic %q: want a word for a file name", topic)
	}
	return nil
}

// Create creates a new file in dir for a page about topic. stem is its name without
// .md, shared by the files that belong to it. An earlier page of the same day is kept.
func Create(dir, topic string, now time.Time) (f *os.File, stem string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, "", err
	}
	base := now.Format(time.DateOnly) + "-" + topic
	stem = base
	for n := 2; ; n++ {
		f, err := os.OpenFile(filepath.Join(dir, stem+".md"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			stem = fmt.Sprintf("%s-%d", base, n)
			continue
		}
		return f, stem, err
	}
}
