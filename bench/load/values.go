package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// arrivals is the arrival process: Poisson, or bursts at fixed intervals.
type arrivals struct {
	burst int // 0 is poisson, 1 is fixed
}

func (a *arrivals) Type() string { return "HOW" }

func (a *arrivals) String() string {
	switch a.burst {
	case 0:
		return "poisson"
	case 1:
		return "fixed"
	}
	return fmt.Sprintf("burst:%d", a.burst)
}

func (a *arrivals) Set(s string) error {
	switch number, burst := strings.CutPrefix(s, "burst:"); {
	case s == "poisson":
		a.burst = 0
	case s == "fixed":
		a.burst = 1
	case burst:
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > maxArrive {
			return fmt.Errorf("%q requests at once, want a number from 1 to %g", number, maxArrive)
		}
		a.burst = n
	default:
		return errors.New("want poisson, fixed or burst:N")
	}
	return nil
}

// An intruderFlag is a long prompt that is sent periodically; the zero value disables
// it.
type intruderFlag struct {
	every time.Duration
	words int
}

func (f *intruderFlag) Type() string { return "EVERY:WORDS" }

func (f *intruderFlag) String() string {
	if f.every == 0 {
		return ""
	}
	return fmt.Sprintf("%v:%d", f.every, f.words)
}

func (f *intruderFlag) Set(s string) error {
	every, number, _ := strings.Cut(s, ":")
	d, err := time.ParseDuration(every)
	n, err2 := strconv.Atoi(number)
	if err != nil || err2 != nil || d <= 0 || n < 1 || n > maxWords {
		return fmt.Errorf("want a time and words up to %d, such as 10s:4000", maxWords)
	}
	f.every, f.words = d, n
	return nil
}

// An apiKey is sent with some of the requests. The name is for reports.
type apiKey struct {
	name, key string
	share     float64
}

type apiKeys []apiKey

func (k *apiKeys) Type() string { return "KEY" }

// String omits the keys: it is part of reports.
func (k *apiKeys) String() string {
	var s []string
	for _, key := range *k {
		s = append(s, fmt.Sprintf("%s:%g=KEY", key.name, key.share))
	}
	return strings.Join(s, ",")
}

// Set parses KEY, NAME=KEY or NAME:SHARE=KEY. A key may end in =.
func (k *apiKeys) Set(s string) error {
	next := apiKey{name: fmt.Sprintf("key%d", len(*k)+1), key: s, share: 1}
	if name, key, ok := strings.Cut(s, "="); ok && key != "" {
		name, share, weighed := strings.Cut(name, ":")
		next.name, next.key = cmp.Or(name, next.name), key
		if weighed {
			v, err := strconv.ParseFloat(share, 64)
			if err != nil || !(v > 0) || math.IsInf(v, 0) {
				return errors.New("want a share above 0 in NAME:SHARE=KEY")
			}
			next.share = v
		}
	}
	if next.key == "" || strings.ContainsFunc(next.key, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return errors.New("want a key without spaces")
	}
	for _, other := range *k {
		if other.name == next.name {
			return fmt.Errorf("two keys are called %s", next.name)
		}
	}
	*k = append(*k, next)
	return nil
}
