package fleet

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/quern-llm/quern/go/internal/usage"
)

// maxPresets bounds the size of a file of presets.
const maxPresets = 1 << 20

// A Setting is a line of a file of presets.
type Setting struct {
	Key, Value string
	Line       int
}

// A Section is a part of a file of presets: a model, and settings for it.
type Section struct {
	Name     string
	Line     int
	Settings []Setting
}

// ReadPresets reads a file of presets in llama-server's form: sections with names of models, [*] for all of them,
// and lines KEY = VALUE. What keys mean is Configure's affair.
func ReadPresets(path string) (common []Setting, all []Section, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, usage.Errorf("--models-preset: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPresets+1))
	switch {
	case err != nil:
		return nil, nil, usage.Errorf("--models-preset: %w", err)
	case len(text) > maxPresets:
		return nil, nil, usage.Errorf("--models-preset %s: it is larger than %d KiB", path, maxPresets>>10)
	}
	if common, all, err = parsePresets(string(text)); err != nil {
		err = usage.Errorf("--models-preset %s, %w", path, err)
	}
	return common, all, err
}

func parsePresets(text string) (common []Setting, all []Section, err error) {
	section := ""
	for i, line := range strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n") {
		line, n := strings.TrimSpace(line), i+1
		fail := func(format string, args ...any) error {
			return fmt.Errorf("line %d: %w", n, fmt.Errorf(format, args...))
		}
		if line == "" || line[0] == ';' || line[0] == '#' {
			continue
		}
		if name, ok := strings.CutPrefix(line, "["); ok {
			name, ok = strings.CutSuffix(name, "]")
			if !ok || strings.TrimSpace(name) == "" || strings.ContainsFunc(name, unicode.IsControl) {
				return nil, nil, fail("%q, want a section such as [NAME]", line)
			}
			section = strings.TrimSpace(name)
			if j := slices.IndexFunc(all, func(s Section) bool { return s.Name == section }); j >= 0 {
				return nil, nil, fail("the section [%s] is there already, at line %d", section, all[j].Line)
			}
			if section != "*" {
				all = append(all, Section{Name: section, Line: n})
			}
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		s := Setting{strings.TrimSpace(key), strings.TrimSpace(value), n}
		switch {
		case !ok || s.Key == "" || strings.ContainsFunc(s.Key, unicode.IsControl):
			return nil, nil, fail("%q, want KEY = VALUE", line)
		case section == "" && s.Key == "version":
			if s.Value != "1" {
				return nil, nil, fail("version %q, want 1", s.Value)
			}
		case section == "" || section == "*":
			common = append(common, s)
		default:
			p := &all[len(all)-1]
			p.Settings = append(p.Settings, s)
		}
	}
	return common, all, nil
}

// has reports whether a section has one of these keys.
func (s *Section) has(keys ...string) bool {
	return slices.ContainsFunc(s.Settings, func(one Setting) bool {
		return slices.Contains(keys, strings.TrimLeft(one.Key, "-"))
	})
}
