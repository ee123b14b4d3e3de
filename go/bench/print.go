package bench

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"
)

// Formats are those of an Output.
var Formats = []string{"md", "json", "jsonl", "csv"}

// A printer writes results as they come. R is a struct with JSON field names.
type printer[R any] interface {
	begin() error
	row(r *R) error
	end() error
}

// A table configures the Markdown output.
type table[R any] struct {
	columns []column[R]
	footer  func(last *R) string
}

// newPrinter returns the printer of out. Pointer fields belong to the roofline, or to the energy if
// that is their tag; without it, CSV omits them.
func newPrinter[R any](out Output, t table[R]) printer[R] {
	switch out.Format {
	case "json":
		return &jsonPrinter[R]{w: out.W}
	case "jsonl":
		return &jsonlPrinter[R]{enc: json.NewEncoder(out.W)}
	case "csv":
		return &csvPrinter[R]{w: csv.NewWriter(out.W), roofline: out.Roofline, energy: out.Energy}
	}
	return &mdPrinter[R]{w: out.W, table: t}
}

type jsonPrinter[R any] struct {
	w    io.Writer
	rows int
}

func (p *jsonPrinter[R]) begin() error { return nil }

func (p *jsonPrinter[R]) row(r *R) error {
	b, err := json.MarshalIndent(r, "  ", "  ")
	if err != nil {
		return err
	}
	open := "[\n  "
	if p.rows > 0 {
		open = ",\n  "
	}
	p.rows++
	_, err = fmt.Fprintf(p.w, "%s%s", open, b)
	return err
}

func (p *jsonPrinter[R]) end() error {
	if p.rows == 0 {
		_, err := fmt.Fprintln(p.w, "[]")
		return err
	}
	_, err := fmt.Fprint(p.w, "\n]\n")
	return err
}

type jsonlPrinter[R any] struct{ enc *json.Encoder }

func (p *jsonlPrinter[R]) begin() error   { return nil }
func (p *jsonlPrinter[R]) row(r *R) error { return p.enc.Encode(r) }
func (p *jsonlPrinter[R]) end() error     { return nil }

type csvPrinter[R any] struct {
	w                *csv.Writer
	roofline, energy bool
}

func (p *csvPrinter[R]) begin() error {
	names, _ := p.fields(new(R))
	return p.write(names)
}

func (p *csvPrinter[R]) row(r *R) error {
	_, values := p.fields(r)
	return p.write(values)
}

func (p *csvPrinter[R]) end() error { return nil }

func (p *csvPrinter[R]) write(record []string) error {
	if err := p.w.Write(record); err != nil {
		return err
	}
	p.w.Flush()
	return p.w.Error()
}

// fields returns the names and the values of all fields except the samples, including
// those of embedded structs.
func (p *csvPrinter[R]) fields(r *R) (names, values []string) {
	v := reflect.ValueOf(r).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		kind := f.Type.Kind()
		shown := p.roofline
		if f.Tag.Get("bench") == "energy" {
			shown = p.energy
		}
		if f.Anonymous || kind == reflect.Slice || kind == reflect.Pointer && !shown {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
		values = append(values, csvValue(v.FieldByIndex(f.Index)))
	}
	return names, values
}

func csvValue(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return ""
		}
		return csvValue(v.Elem())
	case reflect.Bool:
		if v.Bool() {
			return "1"
		}
		return "0"
	case reflect.Float64:
		return fmt.Sprintf("%.6f", v.Float())
	}
	return fmt.Sprint(v.Interface())
}

// A column is a column of the Markdown table. Numbers are right-aligned.
type column[R any] struct {
	name  string
	width int
	left  bool
	value func(r *R) string
}

type mdPrinter[R any] struct {
	w     io.Writer
	table table[R]
	last  *R
}

func (p *mdPrinter[R]) begin() error {
	var names, rules []string
	for _, c := range p.table.columns {
		names = append(names, pad(c.name, c.width, c.left))
		rule := strings.Repeat("-", c.width-1)
		if c.left {
			rules = append(rules, rule+"-")
		} else {
			rules = append(rules, rule+":")
		}
	}
	return p.line(names, rules)
}

func (p *mdPrinter[R]) row(r *R) error {
	var cells []string
	for _, c := range p.table.columns {
		cells = append(cells, pad(strings.ReplaceAll(c.value(r), "|", "/"), c.width, c.left))
	}
	p.last = r
	return p.line(cells)
}

func (p *mdPrinter[R]) line(rows ...[]string) error {
	for _, cells := range rows {
		if _, err := fmt.Fprintf(p.w, "| %s |\n", strings.Join(cells, " | ")); err != nil {
			return err
		}
	}
	return nil
}

func (p *mdPrinter[R]) end() error {
	if p.last == nil {
		return nil
	}
	_, err := fmt.Fprintf(p.w, "\n%s\n", p.table.footer(p.last))
	return err
}

// pad pads s with spaces to width characters.
func pad(s string, width int, left bool) string {
	space := strings.Repeat(" ", max(width-utf8.RuneCountInString(s), 0))
	if left {
		return s + space
	}
	return space + s
}
