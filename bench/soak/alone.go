package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// An alone is what a quiet server answered to requests, one after the other, by their hash. It is kept for all parts with
// the same program.
type alone struct {
	path  string
	known map[string]map[string]string
}

type aloneLine struct {
	Hash   string            `json:"hash"`
	Fields map[string]string `json:"fields"`
}

func openAlone(dir, program string) (*alone, error) {
	a := &alone{filepath.Join(dir, "alone-"+program+".jsonl"), map[string]map[string]string{}}
	f, err := os.OpenFile(a.path, os.O_RDONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, maxAnswer)
	for in.Scan() {
		var l aloneLine
		if json.Unmarshal(in.Bytes(), &l) == nil { // a line that was cut short is asked again
			a.known[l.Hash] = l.Fields
		}
	}
	return a, in.Err()
}

// learn asks those of the requests that are not known, of a server that nobody else uses. started is called before the
// first one.
func (a *alone) learn(ctx context.Context, all []*request, started func() (*client, error)) error {
	var c *client
	for _, r := range all {
		if _, ok := a.known[r.hash()]; ok || r.want != 200 {
			continue
		}
		if c == nil {
			var err error
			if c, err = started(); err != nil {
				return err
			}
		}
		got := c.ask(ctx, r, manner{key: adminKey})
		if got.err != nil || got.status != 200 || got.message != "" || !got.finished || len(got.fields) == 0 {
			return fmt.Errorf("a quiet server answers %s %s with %d %s %v", r.path, r.body, got.status, got.message, got.err)
		}
		b, err := json.Marshal(aloneLine{r.hash(), got.fields})
		if err != nil {
			return err
		}
		f, err := os.OpenFile(a.path, os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		_, err = f.Write(append(b, '\n'))
		if err := f.Close(); err != nil {
			return err
		}
		if err != nil {
			return err
		}
		a.known[r.hash()] = got.fields
	}
	return nil
}
