// Command report makes one page of all results: what `make bench`, `bench/load` and
// `quern compare --json` have written into a folder, with an overview of the newest.
//
//	go run ./bench/report -o report.html bench/results
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("o", "report.html", "`file` to write")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "report: want the folder of results, such as bench/results")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *out); err != nil {
		fmt.Fprintf(os.Stderr, "report: %v\n", err)
		os.Exit(1)
	}
}

// run writes the page of a folder.
func run(dir, out string) error {
	r, err := read(dir)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := r.write(&b); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(out, b.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Printf("%s: %d pages, %d bytes\n", out, len(r.pages), b.Len())
	return nil
}
