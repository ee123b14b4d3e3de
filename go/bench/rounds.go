package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// readRounds returns the rounds in a file that are of the same row as one: lines of JSON. Where there is no file there are none.
func readRounds(path string, of *round) (list []round, err error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for i, line := range bytes.Split(data, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		var r round
		if err := json.Unmarshal(line, &r); err != nil || r.Plain <= 0 || r.Draft <= 0 || r.Bound <= 0 || len(r.Passes) == 0 {
			return nil, fmt.Errorf("%s:%d: not a round of --speculate; name another file", path, i+1)
		}
		if r.same(of) {
			list = append(list, r)
		}
	}
	return list, nil
}

// addRound adds a round to a file, at once: what was measured stays when the rest is not waited for.
func addRound(path string, r *round) error {
	if path == "" {
		return nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}
