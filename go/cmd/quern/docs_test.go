package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Commands of the documentation that are marked <!-- run: what they do --> do it, as they stand: each block in a
// folder of its own, with quern on the path and a text in story.txt.
func TestDocs(t *testing.T) {
	story, err := os.ReadFile(heldOut)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)<!-- run: ([^>]+) -->\n```sh\n(.*?)```")
	ran := 0
	for _, pattern := range []string{"../../../README.md", "../../../docs/*.md", "../../../docs/*/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			blocks := block.FindAllStringSubmatch(string(text), -1)
			if n := strings.Count(string(text), "<!-- run:"); n != len(blocks) {
				t.Errorf("%s: %d blocks are marked, %d are of shell", file, n, len(blocks))
			}
			for _, b := range blocks {
				ran++
				t.Run(fmt.Sprintf("%s: %s", filepath.Base(file), b[1]), func(t *testing.T) {
					dir := t.TempDir()
					if err := os.WriteFile(filepath.Join(dir, "story.txt"), story, 0o600); err != nil {
						t.Fatal(err)
					}
					cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", b[2])
					cmd.Dir = dir
					cmd.Env = append(cleanEnvironment(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), "HOME="+dir)
					if out, err := cmd.CombinedOutput(); err != nil {
						t.Errorf("%v\n%s\n%s", err, b[2], out)
					}
				})
			}
		}
	}
	if ran < 5 {
		t.Errorf("only %d blocks were run", ran)
	}
}

// Links between pages lead to files and headings that are there.
func TestLinksOfDocs(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading := regexp.MustCompile(`(?m)^#+ (.+)$`)
	code := regexp.MustCompile("(?s)```.*?```")
	strip := regexp.MustCompile("[^a-z0-9 _-]+")
	anchors := func(file string) map[string]bool {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]bool{}
		for _, m := range heading.FindAllStringSubmatch(code.ReplaceAllString(string(b), ""), -1) {
			all[strings.ReplaceAll(strip.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
		}
		return all
	}
	for _, pattern := range []string{"../../../*.md", "../../../docs/*.md", "../../../docs/*/*.md", "../../../bench/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(string(b), ""), -1) {
				path, anchor, _ := strings.Cut(m[1], "#")
				if strings.Contains(path, "://") || strings.HasPrefix(path, "mailto:") {
					continue
				}
				to := file
				if path != "" {
					to = filepath.Join(filepath.Dir(file), path)
				}
				if _, err := os.Stat(to); err != nil {
					t.Errorf("%s: %s leads nowhere", file, m[1])
				} else if anchor != "" && strings.HasSuffix(to, ".md") && !anchors(to)[anchor] {
					t.Errorf("%s: %s has no such heading", file, m[1])
				}
			}
		}
	}
}
