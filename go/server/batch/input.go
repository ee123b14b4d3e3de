package batch

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A request is a line of a batch's input.
type request struct {
	ID     string         `json:"custom_id"`
	Method string         `json:"method"`
	URL    string         `json:"url"`
	Body   jsontext.Value `json:"body"`
}

// maxFaults is the maximum number of faults that are reported for an input.
const maxFaults = 100

// readInput returns the requests of an input file for an endpoint, or the faults of the file.
func readInput(from io.Reader, endpoint string) (list []request, faults []Fault, err error) {
	in := bufio.NewReaderSize(from, 1<<16)
	seen := map[string]bool{}
	for n := 1; ; n++ {
		line, err := readLine(in)
		if err == io.EOF {
			break
		}
		if err == errLong {
			faults = append(faults, Fault{"invalid_line", fmt.Sprintf("more than %d MiB, want a shorter request", MaxLine>>20), "", n})
		} else if err != nil {
			return nil, nil, err
		} else if len(bytes.TrimSpace(line)) > 0 {
			r, fault := parseRequest(line, endpoint)
			switch {
			case fault != nil:
			case seen[r.ID]:
				fault = &Fault{Code: "duplicate_custom_id", Message: fmt.Sprintf("custom_id %.64q: an earlier line has it, want one of its own", r.ID), Param: "custom_id"}
			case len(list) == MaxLines:
				return nil, []Fault{{"too_many_requests", fmt.Sprintf("more than %d requests, want several batches", MaxLines), "", n}}, nil
			}
			if fault != nil {
				fault.Line = n
				faults = append(faults, *fault)
			} else {
				seen[r.ID] = true
				list = append(list, r)
			}
		}
		if len(faults) == maxFaults {
			break
		}
	}
	if len(list) == 0 && len(faults) == 0 {
		faults = []Fault{{Code: "empty_file", Message: "the input has no requests, want a line of JSON for each"}}
	}
	return list, faults, nil
}

var errLong = fmt.Errorf("a line of more than %d bytes", MaxLine)

// readLine returns the next line without its line break. A line that is too long is skipped.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(line)+len(part) > MaxLine; !long {
			line = append(line, part...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && len(line) == 0 && !long:
			return nil, io.EOF
		case err != nil && err != io.EOF:
			return nil, err
		case long:
			return nil, errLong
		}
		return bytes.TrimRight(line, "\r\n"), nil
	}
}

// parseRequest parses a line. As in the endpoint, the names of members are case-sensitive and unique, so the line is
// validated as the endpoint will read it.
func parseRequest(line []byte, endpoint string) (r request, fault *Fault) {
	bad := func(param, format string, args ...any) (request, *Fault) {
		return r, &Fault{Code: "invalid_request", Message: fmt.Sprintf(format, args...), Param: param}
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return r, &Fault{Code: "invalid_json_line", Message: fmt.Sprintf("not a JSON object of a request: %v", err)}
	}
	body := struct {
		Stream     any `json:"stream"`
		Background any `json:"background"`
	}{}
	switch {
	case r.ID == "" || len(r.ID) > 512:
		return bad("custom_id", "custom_id is missing or longer than 512 bytes, want a text of your own")
	case r.Method != "POST":
		return bad("method", "method %.16q, want POST", r.Method)
	case r.URL != endpoint:
		return bad("url", "url %.64q, want %s, the batch's endpoint", r.URL, endpoint)
	case r.Body.Kind() != '{' || json.Unmarshal(r.Body, &body) != nil:
		return bad("body", "body is missing or no object, want that of a request")
	case body.Stream != nil && body.Stream != false:
		return bad("body.stream", "body.stream: an answer in a file cannot be streamed, want it left out")
	case body.Background != nil && body.Background != false:
		return bad("body.background", "body.background: a batch waits for its answers, want it left out")
	}
	return r, nil
}
