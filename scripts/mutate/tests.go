package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// scalar is the folder of the kernels' specification.
const scalar = "csrc/scalar"

// elsewhere are packages whose tests notice more of another one than its own do.
var elsewhere = map[string][]string{
	"go/model/arch":           {"go/model"},
	"go/model/nn":             {"go/model/arch", "go/model"},
	"go/kernel":               {"go/model"},
	"go/constrain":            {"go/form"},
	"go/kvcache":              {"go/engine"},
	"go/generate":             {"go/engine"},
	"go/draft":                {"go/generate", "go/engine"},
	"go/server/answer":        {"go/server/openai", "go/server/llamaserver", "go/server/anthropic", "go/server"},
	"go/server/ask":           {"go/server/openai", "go/server/llamaserver", "go/server/ollama", "go/server"},
	"go/server/batch":         {"go/server"},
	"go/server/catalog":       {"go/server"},
	"go/server/field":         {"go/server/openai"},
	"go/server/guard":         {"go/server"},
	"go/server/history":       {"go/server/openai"},
	"go/server/host":          {"go/server"},
	"go/server/reply":         {"go/server/openai", "go/server"},
	"go/server/telemetry":     {"go/server"},
	"go/server/anthropic":     {"go/server"},
	"go/server/llamaserver":   {"go/server"},
	"go/server/ollama":        {"go/server"},
	"go/server/openinference": {"go/server"},
	"go/server/openai":        {"go/server"},
	"go/convert/hf":           {"go/convert"},
	"go/convert/vocab":        {"go/convert"},
	"go/convert/lang":         {"go/convert"},
	"go/convert/family":       {"go/convert"},
}

// left out: programs, what only tests use, what a machine decides.
var leftOut = []string{"go/cmd/quern", "go/internal/browser", "go/internal/cputime", "go/internal/layers", "go/internal/testdata", "go/demo"}

// packages returns the folders of packages that have tests, and scalar.
func packages(only string) ([]string, error) {
	if only != "" {
		var names []string
		for name := range strings.SplitSeq(only, ",") {
			if name != scalar {
				name = "go/" + strings.TrimPrefix(name, "go/")
			}
			if info, err := os.Stat(name); err != nil || !info.IsDir() {
				return nil, fmt.Errorf("there is no package %s; run this in the root of the tree", name)
			}
			names = append(names, name)
		}
		return names, nil
	}
	names := []string{scalar}
	err := filepath.WalkDir("go", func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		tests, err := filepath.Glob(filepath.Join(path, "*_test.go"))
		if (len(tests) > 0 || elsewhere[path] != nil) && !slices.Contains(leftOut, path) {
			names = append(names, path)
		}
		return err
	})
	return names, err
}

// A goSuite is the tests of a package of Go and those elsewhere that run it.
type goSuite struct {
	pkg, scratch string
	own          bool // only the package's own tests
	measured     measured
	tests        []test // the package's own first, and of these the fastest
}

// A test is one test function, and what it runs of the packages that its folder covers.
type test struct {
	Folder, Name string
	File         string // hash of the file that has it
	Took         time.Duration
	Lines        map[string][]span // by the file
}

// measured are the tests of folders, for all suites of a run.
type measured map[string][]test

// A span is the lines of a statement or of several, the first and the last.
type span [2]int

func (t *test) reaches(m *mutant) bool {
	return slices.ContainsFunc(t.Lines[m.file], func(s span) bool { return s[0] <= m.reach && m.reach <= s[1] })
}

func (s *goSuite) sites() ([]mutant, error) {
	all, err := sitesOf(s.pkg)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.scratch, 0o755); err != nil {
		return nil, err
	}
	folders := []string{s.pkg}
	if !s.own {
		folders = append(folders, elsewhere[s.pkg]...)
	}
	for _, folder := range folders {
		tests, err := s.measured.of(folder, s.scratch)
		if err != nil {
			return nil, err
		}
		s.tests = append(s.tests, tests...)
	}
	slices.SortFunc(s.tests, func(a, b test) int {
		if own := a.Folder == s.pkg; own != (b.Folder == s.pkg) {
			if own {
				return -1
			}
			return 1
		}
		return int(a.Took - b.Took)
	})
	return all, nil
}

// sitesOf returns the places of a package of Go, or of the scalar kernels.
func sitesOf(pkg string) ([]mutant, error) {
	ext, read := ".go", goSites
	if pkg == scalar {
		ext, read = ".c", cSites
	}
	files, err := filepath.Glob(filepath.Join(pkg, "*"+ext))
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		sites, err := read(pkg, file)
		if err != nil {
			return nil, err
		}
		all = append(all, sites...)
	}
	return all, nil
}

var isTest = regexp.MustCompile(`^(Test|Fuzz|Example)\w*$`) // beside warnings

// of returns the tests of a folder, which are measured once.
func (m measured) of(folder, scratch string) ([]test, error) {
	tests, ok := m[folder]
	if !ok {
		var err error
		if tests, err = measure(folder, scratch); err != nil {
			return nil, err
		}
		m[folder] = tests
	}
	return tests, nil
}

// measure runs each test of a folder alone, and notes what it reaches of the packages that count it.
func measure(folder, scratch string) ([]test, error) {
	covered := []string{"./" + folder}
	for pkg, folders := range elsewhere {
		if slices.Contains(folders, folder) {
			covered = append(covered, "./"+pkg)
		}
	}
	slices.Sort(covered)
	files, err := filesOf(folder)
	if err != nil {
		return nil, err
	}
	sources, err := sourcesOf(folder, covered)
	if err != nil {
		return nil, err
	}
	// A file of the folder's tests, one a line; its name has the hash of what they may reach and read.
	known := filepath.Join("build", "mutate", fmt.Sprintf("%s-%s.jsonl", strings.ReplaceAll(folder, "/", "-"), sources))
	tests, err := readTests(known)
	if err != nil {
		return nil, err
	}
	tests = slices.DeleteFunc(tests, func(t test) bool { return files[t.Name] != t.File })
	delete(files, "TestMain") // which is none
	if len(tests) == len(files) {
		return tests, nil
	}
	program := filepath.Join(scratch, "covered.test")
	if out, err := command(10*time.Minute, "", "scripts/go.sh", "test", "-c", "-vet=off", "-cover", "-coverpkg="+strings.Join(covered, ","), "-o", program, "./"+folder); err != nil {
		return nil, fmt.Errorf("%s: %v\n%s", folder, err, out)
	}
	if _, err := os.Stat(program); errors.Is(err, os.ErrNotExist) {
		return nil, nil // there are no tests
	}
	list, err := command(time.Minute, folder, program, "-test.list", "^(Test|Fuzz|Example)")
	if err != nil {
		return nil, fmt.Errorf("%s: %v\n%s", folder, err, list)
	}
	log, err := os.OpenFile(known, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	for name := range strings.Lines(string(list)) {
		if name = strings.TrimSpace(name); !isTest.MatchString(name) || slices.ContainsFunc(tests, func(t test) bool { return t.Name == name }) {
			continue
		}
		profile := filepath.Join(scratch, "profile")
		begun := time.Now()
		out, err := command(10*time.Minute, folder, program, "-test.short", "-test.run", "^"+name+"$", "-test.coverprofile", profile)
		if err != nil {
			return nil, fmt.Errorf("%s of %s fails without a mutant: %v\n%s", name, folder, err, tail(out))
		}
		t := test{Folder: folder, Name: name, File: files[name], Took: time.Since(begun)}
		if t.Lines, err = reached(profile); err != nil {
			return nil, err
		}
		line, err := json.Marshal(t)
		if err != nil {
			return nil, err
		}
		if _, err := log.Write(append(line, '\n')); err != nil {
			return nil, err
		}
		tests = append(tests, t)
	}
	return tests, os.Remove(program)
}

// sourcesOf returns a hash of the files of packages, and of what the tests of a folder read there. The tests themselves
// are left out.
func sourcesOf(folder string, packages []string) (string, error) {
	sum := sha256.New()
	add := func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(text), text)
		return err
	}
	for _, pkg := range packages {
		files, err := os.ReadDir(pkg)
		for _, d := range files {
			if err == nil && d.Type().IsRegular() {
				err = add(filepath.Join(pkg, d.Name()), d, nil)
			}
		}
		if err != nil {
			return "", err
		}
	}
	data := filepath.Join(folder, "testdata")
	if _, err := os.Stat(data); err == nil {
		if err := filepath.WalkDir(data, add); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%.16x", sum.Sum(nil)), nil
}

var testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)

// filesOf returns the hash of the file of each test of a folder.
func filesOf(folder string) (map[string]string, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for _, m := range testFunction.FindAllSubmatch(text, -1) {
			files[string(m[1])] = fmt.Sprintf("%.8x", sha256.Sum256(text))
		}
	}
	return files, nil
}

// readTests returns what an earlier run measured; a last line that was cut off is left out.
func readTests(file string) ([]test, error) {
	b, err := os.ReadFile(mkdirOf(file))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var tests []test
	for line := range bytes.Lines(b) {
		var t test
		if json.Unmarshal(line, &t) == nil {
			tests = append(tests, t)
		}
	}
	return tests, nil
}

// reached returns the lines that a profile of coverage counts at least once.
func reached(profile string) (map[string][]span, error) {
	b, err := os.ReadFile(profile)
	if err != nil {
		return nil, err
	}
	lines := map[string][]span{}
	for r := bufio.NewScanner(bytes.NewReader(b)); r.Scan(); {
		// module/path/file.go:from.column,to.column statements count
		at, counts, ok := strings.Cut(r.Text(), " ")
		if !ok || strings.HasSuffix(counts, " 0") || at == "mode:" {
			continue
		}
		path, columns, _ := strings.Cut(at, ":")
		from, to, _ := strings.Cut(columns, ",")
		first, err1 := strconv.Atoi(strings.Split(from, ".")[0])
		last, err2 := strconv.Atoi(strings.Split(to, ".")[0])
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("a line of coverage: %q", r.Text())
		}
		name := path[strings.Index(path, "/go/")+1:]
		lines[name] = append(lines[name], span{first, last})
	}
	return lines, nil
}

// mostGuests is the time of the tests of other packages that are run for a mutant: the fastest.
const mostGuests = 20 * time.Second

// try runs the tests that reach each mutant, until one fails.
func (s *goSuite) try(batch []mutant, done func(*mutant, outcome)) error {
	shared, err := s.bundle(batch)
	if err != nil {
		return err
	}
	for i := range batch {
		m := &batch[i]
		got, b, k := invalid, shared, slices.Index(shared.mutants, m)
		if !m.shares {
			if b, err = s.single(m); err != nil {
				return err
			}
		}
		if k >= 0 || !m.shares {
			if got, err = s.run(b, k+1, m); err != nil {
				return fmt.Errorf("%v: %w", m, err)
			}
		}
		done(m, got)
	}
	return nil
}

// run runs the tests that reach a mutant, which has that number in the programs; 0: it is the only one.
func (s *goSuite) run(b *built, number int, m *mutant) (outcome, error) {
	var run []test
	guests := time.Duration(0)
	for _, t := range s.tests {
		// What stands outside of functions, such as a constant, no profile counts: any test may reach it.
		if m.inside && !t.reaches(m) {
			continue
		}
		if t.Folder != s.pkg {
			if guests += t.Took; guests > mostGuests {
				break
			}
		}
		run = append(run, t)
	}
	if len(run) == 0 {
		return unreached, nil
	}
	for len(run) > 0 {
		var names []string
		var folder string
		var took time.Duration
		names, folder, took, run = together(run)
		if b.programs[folder] == "" {
			program := filepath.Join(b.dir, strings.ReplaceAll(folder, "/", "-")+".test")
			if out, err := command(10*time.Minute, "", "scripts/go.sh", "test", "-c", "-vet=off", "-overlay", b.overlay, "-o", program, "./"+folder); err != nil {
				if number == 0 {
					return invalid, nil
				}
				return 0, fmt.Errorf("%v\n%s", err, tail(out))
			}
			b.programs[folder] = program
		}
		if _, err := b.test(folder, names, number, took); err != nil {
			if number == 0 {
				return killed, nil
			}
			return killed, b.trust(folder, names, took)
		}
	}
	return survived, nil
}

// test runs tests of a folder with a mutant, or with none, number 0.
func (b *built) test(folder string, names []string, number int, took time.Duration) ([]byte, error) {
	args := []string{fmt.Sprintf("%s=%d", variable, number), mustAbs(b.programs[folder]), "-test.short", "-test.failfast", "-test.run", "^(" + strings.Join(names, "|") + ")$"}
	return command(5*time.Second+10*took, folder, "/usr/bin/env", args...)
}

// trust returns an error if tests do not pass without a mutant either.
func (b *built) trust(folder string, names []string, took time.Duration) error {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return b.sound[folder+" "+name] })
	if len(names) == 0 {
		return nil
	}
	if out, err := b.test(folder, names, 0, took+time.Minute); err != nil {
		return fmt.Errorf("tests of %s fail without a mutant: %v\n%s", folder, err, tail(out))
	}
	for _, name := range names {
		b.sound[folder+" "+name] = true
	}
	return nil
}

// together takes the fastest tests of one folder that share a process: their time doubles with each process, so that what
// a fast test notices never waits for a slow one, and starting processes costs little.
func together(run []test) (names []string, folder string, took time.Duration, rest []test) {
	folder = run[0].Folder
	limit := max(time.Second, 2*run[0].Took)
	for i, t := range run {
		if t.Folder != folder {
			rest = append(rest, t)
			continue
		}
		if len(names) > 0 && took+t.Took > limit {
			return names, folder, took, append(rest, run[i:]...)
		}
		names, took = append(names, t.Name), took+t.Took
	}
	return names, folder, took, rest
}

// command runs a program with a limit of time in a folder, and returns what it printed.
func command(limit time.Duration, folder, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if folder != "" {
		path, err := filepath.Abs(name)
		if err != nil {
			return nil, err
		}
		name = path
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.WaitDelay = folder, time.Second
	return cmd.CombinedOutput()
}

func tail(b []byte) []byte { return b[max(0, len(b)-2000):] }

// A cSuite is the checks of the kernels, in a copy of the sources, and the golden vectors. What is compiled there is
// kept in build/mutate for later runs.
type cSuite struct {
	scratch string
	only    []string // of check: the set to compare
}

func (s *cSuite) sites() ([]mutant, error) {
	for _, name := range []string{"CMakeLists.txt", "csrc", "include"} {
		if err := filepath.WalkDir(name, s.copy); err != nil {
			return nil, err
		}
	}
	if got, err := s.build(); got != survived || err != nil {
		return nil, fmt.Errorf("the copy in %s does not pass its checks: %v", s.scratch, err)
	}
	return sitesOf(scalar)
}

// copy copies a file unless the copy has the same text, which need not be compiled again then.
func (s *cSuite) copy(path string, d os.DirEntry, err error) error {
	if err != nil || d.IsDir() {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	to := filepath.Join(s.scratch, path)
	if old, err := os.ReadFile(to); err == nil && bytes.Equal(old, text) {
		return nil
	}
	return os.WriteFile(mkdirOf(to), text, 0o644)
}

func mkdirOf(file string) string {
	mkdir(filepath.Dir(file))
	return file
}

func mkdir(path string) string {
	_ = os.MkdirAll(path, 0o755) // what is written into it fails
	return path
}

// build compiles the copy and runs its checks, and where these pass the golden vectors of go/kernel with it.
func (s *cSuite) build() (outcome, error) {
	build := filepath.Join(s.scratch, "build")
	if _, err := command(10*time.Minute, "", "cmake", "-S", s.scratch, "-B", build); err != nil {
		return invalid, err
	}
	if _, err := command(10*time.Minute, "", "cmake", "--build", build, "--parallel", "2"); err != nil {
		return invalid, nil
	}
	out, err := command(5*time.Minute, "", filepath.Join(build, "csrc", "check"), slices.Concat([]string{"--quick"}, s.only)...)
	if err != nil {
		return killed, nil
	}
	if s.only == nil { // the last line is the best set, which takes the kernels of those before it
		if words := strings.Fields(string(out)); len(words) > 1 {
			s.only = []string{"--isa", words[len(words)-2]}
		}
	}
	program := filepath.Join(s.scratch, "kernel.test")
	lib, err := filepath.Abs(filepath.Join(build, "csrc"))
	if err != nil {
		return 0, err
	}
	if out, err = command(10*time.Minute, "", "env", "QN_LIB="+lib, "scripts/go.sh", "test", "-c", "-vet=off", "-o", program, "./go/kernel"); err != nil {
		return 0, fmt.Errorf("%v: %s", err, out)
	}
	if _, err := command(5*time.Minute, "go/kernel", "/usr/bin/env", "QUERN_ISA=scalar", mustAbs(program), "-test.short"); err != nil {
		return killed, nil
	}
	return survived, nil
}

func mustAbs(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	return abs
}

func (s *cSuite) try(batch []mutant, done func(*mutant, outcome)) error {
	for i := range batch {
		got, err := s.one(&batch[i])
		if err != nil {
			return fmt.Errorf("%v: %w", &batch[i], err)
		}
		done(&batch[i], got)
	}
	return nil
}

func (s *cSuite) one(m *mutant) (outcome, error) {
	text, err := m.apply()
	if err != nil {
		return 0, err
	}
	copied := filepath.Join(s.scratch, m.file)
	original, err := os.ReadFile(copied)
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(copied, text, 0o644); err != nil {
		return 0, err
	}
	got, err := s.build()
	return got, errors.Join(err, os.WriteFile(copied, original, 0o644))
}
