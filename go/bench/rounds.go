package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// readRounds returns the rounds of the same row in a file of JSON lines; none if there is no file.
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

// addRound appends a round to a file at once, so that it is kept if the measurement is interrupted.
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
