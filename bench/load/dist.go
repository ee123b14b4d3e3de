package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// A dist is a distribution of integers, and a flag's value.
type dist struct {
	least, most int // bounds of a draw
	text        string
	draw        func(r *rand.Rand) int
}

const distForms = "N, fixed:N, uniform:A-B, lognormal:MEDIAN,SIGMA or lognormal:MEDIAN,SIGMA,MOST"

func (d *dist) String() string { return d.text }
func (d *dist) Type() string   { return "DIST" }

// Set parses one of distForms.
func (d *dist) Set(s string) error {
	draw, err := d.parse(s)
	if err != nil {
		return err
	}
	d.text, d.draw = s, draw
	return nil
}

func (d *dist) parse(s string) (func(*rand.Rand) int, error) {
	form, rest, named := strings.Cut(s, ":")
	if !named {
		form, rest = "fixed", s
	}
	switch form {
	case "fixed":
		n, err := d.number(rest)
		if err != nil {
			return nil, err
		}
		return func(*rand.Rand) int { return n }, nil
	case "uniform":
		from, to, _ := strings.Cut(rest, "-")
		a, err := d.number(from)
		if err != nil {
			return nil, err
		}
		b, err := d.number(to)
		if err != nil {
			return nil, err
		}
		if b < a {
			return nil, fmt.Errorf("%d is less than %d", b, a)
		}
		return func(r *rand.Rand) int { return a + r.IntN(b-a+1) }, nil
	case "lognormal":
		return d.lognormal(strings.Split(rest, ","))
	}
	return nil, fmt.Errorf("want %s", distForms)
}

// lognormal resembles the lengths of real prompts: many short, few very long.
func (d *dist) lognormal(args []string) (func(*rand.Rand) int, error) {
	if len(args) != 2 && len(args) != 3 {
		return nil, fmt.Errorf("want %s", distForms)
	}
	median, err := d.number(args[0])
	if err != nil {
		return nil, err
	}
	sigma, err := strconv.ParseFloat(args[1], 64)
	if err != nil || !(sigma >= 0 && sigma <= 10) {
		return nil, fmt.Errorf("sigma %q, want a number from 0 to 10, such as 0.8", args[1])
	}
	least, most := d.least, d.most
	if len(args) == 3 {
		if most, err = d.number(args[2]); err != nil {
			return nil, err
		}
	}
	return func(r *rand.Rand) int {
		v := float64(median) * math.Exp(sigma*r.NormFloat64())
		return int(min(max(math.Round(v), float64(least)), float64(most)))
	}, nil
}

func (d *dist) number(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < d.least || n > d.most {
		return 0, fmt.Errorf("%q, want a number from %d to %d", s, d.least, d.most)
	}
	return n, nil
}
