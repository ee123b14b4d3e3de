package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"time"
)

// A batch is one that was begun, and what its lines are to be answered with.
type batch struct {
	ID     string            `json:"id"`
	Input  string            `json:"input"`
	Epoch  int               `json:"epoch"`
	Begun  time.Time         `json:"begun"`
	Starts int               `json:"starts"` // of the server
	Part   int               `json:"part"`
	Want   map[string]string `json:"want"` // hashes of requests by custom_id
}

// batchLines is how many requests a batch has.
const batchLines = 12

// beginBatch begins a batch of some of the requests.
func (w *world) beginBatch(ctx context.Context, n int, p *plan) {
	b := batch{Epoch: n, Begun: time.Now(), Starts: w.server.starts, Part: w.state.Parts, Want: map[string]string{}}
	var lines bytes.Buffer
	for i, r := range p.pool {
		if r.path != "/v1/chat/completions" || r.streams() || r.want != 200 || r.also != nil || len(b.Want) == batchLines {
			continue
		}
		id := fmt.Sprint("line ", i)
		fmt.Fprintf(&lines, "{\"custom_id\":%q,\"method\":\"POST\",\"url\":%q,\"body\":%s}\n", id, r.path, r.body)
		b.Want[id] = r.hash()
	}
	var form bytes.Buffer
	fw := multipart.NewWriter(&form)
	fw.WriteField("purpose", "batch")
	f, err := fw.CreateFormFile("file", "requests.jsonl")
	if err != nil {
		panic(err) // in memory
	}
	f.Write(lines.Bytes())
	fw.Close()
	var v struct{ ID string }
	status, got, err := w.server.client.send(ctx, http.MethodPost, "/v1/files", fw.FormDataContentType(), form.Bytes())
	if err != nil || status != 200 || json.Unmarshal(got, &v) != nil {
		w.problem(-1, "batch", fmt.Sprintf("the upload: %d %s %v", status, got, err), nil)
		return
	}
	b.Input = v.ID
	status, got, err = w.server.client.get(ctx, http.MethodPost, "/v1/batches", marshal(object{"input_file_id": b.Input, "endpoint": "/v1/chat/completions", "completion_window": "24h"}))
	if err != nil || status != 200 || json.Unmarshal(got, &v) != nil {
		w.problem(-1, "batch", fmt.Sprintf("the batch: %d %s %v", status, got, err), nil)
		return
	}
	b.ID = v.ID
	w.state.Batches = append(w.state.Batches, b)
	if err := w.state.save(); err != nil {
		w.problem(-1, "batch", err.Error(), nil)
	}
}

// A batchAnswer is what the server says of a batch.
type batchAnswer struct {
	Status string
	Output string `json:"output_file_id"`
	Errors string `json:"error_file_id"`
}

// endBatches waits for the batches, compares what they have answered, and deletes their files.
func (w *world) endBatches(ctx context.Context, o *outcome, met *spans) {
	for _, b := range w.state.Batches {
		var v batchAnswer
		var last string
		ended := until(ctx, func() bool {
			status, got, err := w.server.client.get(ctx, http.MethodGet, "/v1/batches/"+b.ID, nil)
			last = fmt.Sprintf("%d %s %v", status, got, err)
			if status == 404 {
				return true
			}
			return status == 200 && json.Unmarshal(got, &v) == nil && strings.Contains("completed failed expired cancelled", v.Status)
		})
		if ctx.Err() != nil {
			return
		}
		disk := false
		for _, f := range met.during(b.Begun, time.Now()) {
			disk = disk || f.disk
		}
		switch {
		case !ended:
			w.problem(-1, "batch", fmt.Sprintf("batch %s of epoch %d does not end: %s", b.ID, b.Epoch, last), nil)
		case v.Status != "completed" && !(disk && v.Status == "failed"):
			w.problem(-1, "batch", fmt.Sprintf("batch %s of epoch %d: %s", b.ID, b.Epoch, last), nil)
		case v.Status == "completed":
			if w.compareBatch(ctx, b, v, met) {
				o.Batches++
				if b.Starts != w.server.starts || b.Part != w.state.Parts {
					o.Carried++
				}
			}
		}
		if disk {
			w.state.Lost = append(w.state.Lost, b.Input)
		}
		for _, id := range []string{b.Input, v.Output, v.Errors} {
			if id == "" {
				continue
			}
			if status, got, err := w.server.client.get(ctx, http.MethodDelete, "/v1/files/"+id, nil); status != 200 {
				w.problem(-1, "batch", fmt.Sprintf("file %s of a batch that has ended is not deleted: %d %s %v", id, status, got, err), nil)
			}
		}
	}
	w.state.Batches = nil
}

// compareBatch tells whether all lines have the answers of a quiet server.
func (w *world) compareBatch(ctx context.Context, b batch, v batchAnswer, met *spans) bool {
	var out []byte
	for _, id := range []string{v.Output, v.Errors} {
		if id == "" {
			continue
		}
		status, got, err := w.server.client.get(ctx, http.MethodGet, "/v1/files/"+id+"/content", nil)
		if status != 200 || err != nil {
			w.problem(-1, "batch", fmt.Sprintf("file %s of batch %s: %d %s %v", id, b.ID, status, got, err), nil)
			return false
		}
		out = append(out, got...)
	}
	fine, seen := true, map[string]bool{}
	for line := range bytes.Lines(out) {
		var l struct {
			ID       string `json:"custom_id"`
			Response struct {
				Status int `json:"status_code"`
				Body   json.RawMessage
			}
		}
		wrong := ""
		if err := json.Unmarshal(line, &l); err != nil {
			wrong = err.Error()
		}
		hash, asked := b.Want[l.ID]
		a := &answer{status: l.Response.Status}
		switch {
		case wrong != "":
		case !asked || seen[l.ID]:
			wrong = "it was not asked, or is there twice"
		case l.Response.Status != 200:
			if wrong = string(line); excuse(met.during(b.Begun, time.Now()), false, a) {
				wrong = ""
			}
		default:
			want, known := w.alone.known[hash]
			if err := a.read("application/json", bytes.NewReader(l.Response.Body), time.Now(), nil); err != nil {
				wrong = err.Error()
			} else if d := differs(a.fields, want, false); known && d != "" {
				wrong = d
			}
		}
		seen[l.ID] = true
		if wrong != "" {
			w.problem(-1, "batch", fmt.Sprintf("batch %s of epoch %d, %s: %s", b.ID, b.Epoch, l.ID, wrong), nil)
			fine = false
		}
	}
	if len(seen) != len(b.Want) {
		w.problem(-1, "batch", fmt.Sprintf("batch %s of epoch %d has %d answers of %d", b.ID, b.Epoch, len(seen), len(b.Want)), nil)
		fine = false
	}
	return fine
}
