package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// most is how many questions a request has at most.
const most = 64

// rates prints how many typed questions about one state a server answers in a second, by how many a request has. The state is
// a new one each time, so that no part of it is in the cache; the time is the least of the runs.
func rates(url string, runs int) error {
	fmt.Println("| questions | tokens | answered in a second: noul | choice of 4 texts | choice of 4 letters |")
	fmt.Println("| --- | --- | --- | --- | --- |")
	for n := 1; n <= most; n *= 4 {
		fmt.Printf("| %d |", n)
		for i, kind := range []string{"noul", "texts", "letters"} {
			least, tokens := time.Duration(0), 0
			for range runs {
				took, used, err := timed(url, n, kind)
				if err != nil {
					return err
				}
				if least == 0 || took < least {
					least = took
				}
				tokens = used
			}
			if i == 0 {
				fmt.Printf(" %d |", tokens)
			}
			fmt.Printf(" %.1f |", float64(n)/least.Seconds())
		}
		fmt.Println()
	}
	return nil
}

// timed asks n questions of a kind, and returns the time and the tokens they took.
func timed(url string, n int, kind string) (took time.Duration, tokens int, err error) {
	questions := map[string]any{}
	for i := range n {
		q := map[string]any{"type": "noul", "instructions": fmt.Sprintf("Does review %d praise what it is about?", i%len(reviews)+1)}
		if kind != "noul" {
			q["type"], q["criteria"] = "choice", map[string]any{"hotel": nil, "shop": nil, "book": nil, "doctor": nil}
		}
		questions[fmt.Sprintf("q%d", i)] = q
	}
	labels := "texts"
	if kind == "letters" {
		labels = kind
	}
	body, err := json.Marshal(map[string]any{"labels": labels, "questions": questions,
		"state": fmt.Sprintf("Reviews as of %d.\n%s", time.Now().UnixNano(), strings.Join(reviews[:18], "\n"))})
	if err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	r, err := http.Post(url+"/v1/systemone", "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, 0, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, 0, err
	}
	took = time.Since(begun)
	var a struct {
		Answers map[string]any
		Usage   struct {
			Input int `json:"input_tokens"`
		}
	}
	if err := json.Unmarshal(b, &a); err != nil || len(a.Answers) != n {
		return 0, 0, fmt.Errorf("status %d, %d answers of %d: %.200s", r.StatusCode, len(a.Answers), n, b)
	}
	return took, a.Usage.Input, nil
}
