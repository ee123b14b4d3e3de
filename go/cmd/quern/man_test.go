package main

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra/doc"
)

// The manual has a page for each command. A release has it written to QUERN_MAN_DIR; as a test, this
// keeps what only writes pages out of the program.
func TestManPages(t *testing.T) {
	dir := cmp.Or(os.Getenv("QUERN_MAN_DIR"), t.TempDir())
	seconds, _ := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	date := time.Unix(seconds, 0).UTC()
	root := newRootCommand()
	root.DisableAutoGenTag = true
	if err := doc.GenManTree(root, &doc.GenManHeader{Title: "QUERN", Section: "1", Source: "Quern", Manual: "Quern", Date: &date}, dir); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range root.Commands() {
		if !cmd.IsAvailableCommand() || cmd.Name() == "help" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, "quern-"+cmd.Name()+".1"))
		if page := string(b); err != nil || !strings.Contains(page, ".SH SYNOPSIS") || !strings.Contains(page, ".SH OPTIONS") {
			t.Errorf("%s: %v\n%.300s", cmd.Name(), err, page)
		}
	}
}
