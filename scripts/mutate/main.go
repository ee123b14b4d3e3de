// Command mutate measures how sharp the tests are: it breaks one place of the program at a time, an operator, a bound, a
// constant, an early return, and runs the tests that should notice.
//
//	scripts/go.sh run ./scripts/mutate [-n 300] [-each 40 [-skip 20]] [-seed 1] [-only sched,kvcache [-files REGEXP]]
//		[-own] [-v]
//
// Mutants are drawn at random, the same for the same seed and tree, in equal numbers from each package, more from
// large ones. One that does not compile is drawn again. One that all tests pass has survived: either the tests sleep,
// or the change makes no difference (an equivalent mutant), which only a reader can tell. Those that a reader has judged
// so are in equivalent.txt, with the reason, and are not drawn. The sources are never changed: the go command is given an
// overlay with many mutants at a time, and C is compiled in a copy.
//
// What each test reaches is measured once, and kept in build/mutate until the packages that it may reach change, its own
// file, or the test data of its package: a run that was stopped goes on from there.
//
// The result is a table in Markdown, of what was killed by package, and a list of the survivors, written as in
// equivalent.txt.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A mutant is one change of a source file.
type mutant struct {
	pkg      string // of Go, such as go/sched; csrc/scalar
	file     string
	line     int
	reach    int    // the line that tests have to reach
	from, to int    // the bytes of the file that are replaced
	inside   bool   // of a function
	shares   bool   // it can be in one program with others: the function has no labels
	body     [2]int // of the function: the bytes of its braces
	void     bool   // the function returns nothing
	old, new string
}

func (m *mutant) String() string {
	return fmt.Sprintf("%s:%d: `%s` became `%s`", m.file, m.line, short(m.old), short(m.new))
}

// diff returns the lines that the mutant changes, before and after: they name it while others are added above.
func (m *mutant) diff(src string) (before, after string) {
	from := strings.LastIndexByte(src[:m.from], '\n') + 1
	to := m.to + strings.IndexByte(src[m.to:]+"\n", '\n')
	words := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	return words(src[from:to]), words(src[from:m.from] + m.new + src[m.to:to])
}

func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 60 {
		s = s[:57] + "..."
	}
	return s
}

// apply returns the file with the change.
func (m *mutant) apply() ([]byte, error) {
	src, err := os.ReadFile(m.file)
	if err != nil {
		return nil, err
	}
	return slices.Concat(src[:m.from], []byte(m.new), src[m.to:]), nil
}

// An outcome is what became of a mutant.
type outcome int

const (
	invalid  outcome = iota // does not compile
	killed                  // a test failed, or did not end
	survived                // all tests passed that run the place
	unreached
)

// A suite runs the tests that should notice mutants of one package.
type suite interface {
	sites() ([]mutant, error)
	try(batch []mutant, done func(*mutant, outcome)) error // the batch in order
}

// A score is what became of the mutants of a package.
type score struct {
	pkg    string
	counts [4]int
}

func (s *score) total() int { return s.counts[killed] + s.counts[survived] + s.counts[unreached] }

func main() {
	n := flag.Int("n", 300, "`mutants` to try")
	seed := flag.Uint64("seed", 1, "of the draw")
	each := flag.Int("each", 0, "`mutants` to try of each package, whatever its size, in place of -n")
	skip := flag.Int("skip", 0, "leave out so many mutants of each package: an earlier run has tried them")
	only := flag.String("only", "", "`packages` below go/, and csrc/scalar, separated by commas; all by default")
	files := flag.String("files", "", "only mutants of files whose names match this `regexp`; all by default")
	own := flag.Bool("own", false, "run only the tests of the mutant's own package")
	verbose := flag.Bool("v", false, "print what became of each mutant")
	flag.Parse()
	if err := run(*n, *each, *skip, *seed, *only, *files, *own, *verbose); err != nil {
		fmt.Fprintf(os.Stderr, "mutate: %v\n", err)
		os.Exit(1)
	}
}

func run(n, each, skip int, seed uint64, only, files string, own, verbose bool) error {
	named, err := regexp.Compile(files)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "quern-mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	names, err := packages(only)
	if err != nil {
		return err
	}
	same, err := readEquivalents("scripts/mutate/equivalent.txt")
	if err != nil {
		return err
	}
	var scores []score
	var survivors []mutant
	tests := measured{}
	begun := time.Now()
	for _, name := range names {
		var s suite = &goSuite{pkg: name, own: own, measured: tests, scratch: filepath.Join(scratch, strings.ReplaceAll(name, "/", "-"))}
		if name == scalar {
			s = &cSuite{scratch: filepath.Join("build", "mutate", "c")}
		}
		sites, err := s.sites()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if sites, err = same.remove(name, sites); err != nil {
			return err
		}
		sites = slices.DeleteFunc(sites, func(m mutant) bool { return !named.MatchString(filepath.Base(m.file)) })
		hash := fnv.New64a()
		hash.Write([]byte(name)) // so the draw of one package does not depend on the others
		random := rand.New(rand.NewPCG(seed, hash.Sum64()))
		random.Shuffle(len(sites), func(i, j int) { sites[i], sites[j] = sites[j], sites[i] })
		sites = sites[min(skip, len(sites)):]
		one := score{pkg: name}
		want := each
		if want == 0 {
			want = share(n, len(names), len(sites))
		}
		for one.total() < want && len(sites) > 0 {
			batch := sites[:min(want-one.total(), len(sites), mostBatch)]
			sites = sites[len(batch):]
			err := s.try(batch, func(m *mutant, got outcome) {
				one.counts[got]++
				if got == survived || got == unreached {
					survivors = append(survivors, *m)
				}
				if verbose {
					fmt.Fprintf(os.Stderr, "%6.0f s  %-9s %v\n", time.Since(begun).Seconds(), verdicts[got], m)
				}
			})
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		scores = append(scores, one)
	}
	return report(scores, survivors)
}

// mostBatch is how many mutants share a program.
const mostBatch = 200

var verdicts = [...]string{"invalid", "killed", "SURVIVED", "UNREACHED"}

// share is how many mutants of a package are tried: an equal part of half of them, and of the rest by its size.
func share(n, packages, sites int) int {
	const typical = 600 // sites of a package
	return max(1, n/packages*(1000+1000*min(sites, 3*typical)/typical)/2000)
}

func report(scores []score, survivors []mutant) error {
	fmt.Println("| package | mutants | killed | survived | not reached | score |\n| --- | ---: | ---: | ---: | ---: | ---: |")
	all := score{pkg: "all"}
	line := func(s score) {
		fmt.Printf("| %s | %d | %d | %d | %d | %.0f %% |\n", s.pkg, s.total(), s.counts[killed], s.counts[survived], s.counts[unreached],
			100*float64(s.counts[killed])/float64(max(s.total(), 1)))
	}
	for _, s := range scores {
		line(s)
		for i := range s.counts {
			all.counts[i] += s.counts[i]
		}
	}
	line(all)
	slices.SortFunc(survivors, func(a, b mutant) int { return cmp.Or(strings.Compare(a.file, b.file), a.line-b.line) })
	fmt.Println("\nSurvivors:")
	for i := range survivors {
		m := &survivors[i]
		src, err := os.ReadFile(m.file)
		if err != nil {
			return err
		}
		before, after := m.diff(string(src))
		fmt.Printf("%s:%d\n- %s\n+ %s\n", m.file, m.line, before, after)
	}
	return nil
}
