package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// maxList is the maximum length of a list: a range of a million tests is a typing
// error.
const maxList = 4096

// listVar defines a flag for a list of integers: 1,2,8 or ranges such as 1-8, 1-8+2 and
// 1-64*2. Repeated flags append.
func listVar(fs *pflag.FlagSet, p *[]int, name, short string, value []int, least, most int, usage string) {
	*p = value
	fs.VarP(&listValue{p: p, least: least, most: most}, name, short, usage)
}

type listValue struct {
	p           *[]int
	least, most int
	set         bool // set explicitly, which replaces the default
}

func (v *listValue) Set(s string) error {
	list, err := parseList(s, v.least, v.most)
	if err != nil {
		return err
	}
	if v.set {
		list = append(*v.p, list...)
	}
	*v.p, v.set = list, true
	return nil
}

func (v *listValue) String() string {
	var s []string
	for _, n := range *v.p {
		s = append(s, strconv.Itoa(n))
	}
	return strings.Join(s, ",")
}

func (v *listValue) Type() string { return "LIST" }

// rangePattern is FIRST, FIRST-LAST, FIRST-LAST+STEP or FIRST-LAST*FACTOR.
var rangePattern = regexp.MustCompile(`^(\d+)(?:-(\d+)(?:([+*])(\d+))?)?$`)

// parseList expands a list of integers and ranges.
func parseList(s string, least, most int) ([]int, error) {
	bad := fmt.Errorf("want whole numbers from %d to %d such as 8 or 1,2,8 or 1-8 or 1-8+2 or 1-64*2", least, most)
	var list []int
	for part := range strings.SplitSeq(s, ",") {
		m := rangePattern.FindStringSubmatch(strings.TrimSpace(part))
		if m == nil {
			return nil, bad
		}
		number := func(text string, missing int) int {
			if text == "" {
				return missing
			}
			n, err := strconv.Atoi(text)
			if err != nil {
				return -1 // overflow is out of bounds too
			}
			return n
		}
		first := number(m[1], -1)
		last := number(m[2], first)
		step := number(m[4], 1)
		if first < least || last > most || last < first {
			return nil, bad
		}
		for i := first; i <= last; {
			if len(list) == maxList {
				return nil, fmt.Errorf("more than %d values, want fewer", maxList)
			}
			list = append(list, i)
			next := i + step
			if m[3] == "*" {
				next = i * step
			}
			if i == last {
				break
			}
			if next <= i || step > most {
				return nil, fmt.Errorf("range %q does not advance, want one such as 1-8+2 or 1-64*2", part)
			}
			i = next
		}
	}
	return list, nil
}

// A promptGen is a test that reads a prompt and then generates.
type promptGen struct{ prompt, gen int }

type promptGenValue []promptGen

func (v *promptGenValue) Set(s string) error {
	prompt, gen, ok := strings.Cut(s, ",")
	p, errP := strconv.Atoi(prompt)
	g, errG := strconv.Atoi(gen)
	if !ok || errP != nil || errG != nil || p < 0 || g < 0 || p > maxTokens || g > maxTokens {
		return fmt.Errorf("want PROMPT,GENERATED such as 512,128, each from 0 to %d", maxTokens)
	}
	*v = append(*v, promptGen{p, g})
	return nil
}

func (v *promptGenValue) String() string {
	var s []string
	for _, t := range *v {
		s = append(s, fmt.Sprintf("%d,%d", t.prompt, t.gen))
	}
	return strings.Join(s, " ")
}

func (v *promptGenValue) Type() string { return "P,N" }

// wordsVar defines a flag for a list of words that accept validates. Repeated flags
// append.
func wordsVar(fs *pflag.FlagSet, p *[]string, name, short string, value []string, accept func(string) error, usage string) {
	*p = value
	fs.VarP(&wordsValue{p: p, accept: accept}, name, short, usage)
}

type wordsValue struct {
	p      *[]string
	accept func(string) error
	set    bool
}

func (v *wordsValue) Set(s string) error {
	words := strings.Split(s, ",")
	for _, w := range words {
		if err := v.accept(w); err != nil {
			return err
		}
	}
	if v.set {
		words = slices.Concat(*v.p, words)
	}
	*v.p, v.set = words, true
	return nil
}

func (v *wordsValue) String() string { return strings.Join(*v.p, ",") }
func (v *wordsValue) Type() string   { return "LIST" }

// acceptFlashAttn accepts llama.cpp's words, except those for off: attention here
// always streams over the keys and values.
func acceptFlashAttn(s string) error {
	switch strings.ToLower(s) {
	case "auto", "-1", "on", "1", "enabled", "true":
		return nil
	case "off", "0", "disabled", "false":
		return errors.New("attention is always fused here, want auto or 1")
	}
	return errors.New("want auto or 1")
}
