// Command decide compares decisions, which evaluate the answers that there may be, with generating one of them: in time, in how
// often they are right, and in what a calibration makes of their probabilities.
//
//	go run ./bench/decide [-runs 5] MODEL...
//	go run ./bench/decide [-runs 5] -url http://127.0.0.1:8080
//
// With -url it asks a server that runs typed questions about one state, and prints how many it answers in a second.
//
// The texts are forty short reviews, half of them good ones. Each prompt begins with a number of its own, so that no more of it is in
// the cache than what is in front of the number. Times are the least of the runs, summed over the texts: only their ratio is told.
package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/quern-llm/quern"
	"github.com/quern-llm/quern/go/reading"
)

var labels = []string{"positive", "negative"}

// reviews are good, then bad, and so on.
var reviews = []string{
	"The soup was hot and the staff were kind.", "The soup was cold and nobody cared.",
	"It has run for three years without a fault.", "It broke on the second day.",
	"I laughed from the first page to the last.", "I gave up after ten pages.",
	"The room was quiet and very clean.", "There was mould on the bathroom wall.",
	"They answered in an hour and sent a new one.", "They never answered any of my letters.",
	"The best coat that I have owned.", "The seams came apart in the rain.",
	"Our guide knew every stone of the town.", "The guide came late and read from his phone.",
	"The battery lasts for days.", "The battery is empty by noon.",
	"Easy to build, and it stands firmly.", "Two screws were missing and the legs wobble.",
	"My children ask for it every evening.", "My children were bored in a minute.",
	"The bread is fresh each morning.", "The bread was hard as a brick.",
	"A clear picture and rich sound.", "The picture flickers and the sound crackles.",
	"It arrived a day early, well wrapped.", "It arrived a week late, in pieces.",
	"The acting moved me to tears.", "The plot made no sense at all.",
	"Worth every cent of its price.", "A waste of money.",
	"The new update made it twice as fast.", "Since the update it crashes all the time.",
	"The garden is lovely in spring.", "The garden was full of rubbish.",
	"The doctor listened and explained it all.", "The doctor did not even look up.",
	"It fits perfectly and feels soft.", "It shrank in the first wash.",
	"We will come back next summer.", "We left after one night.",
}

func main() {
	runs := flag.Int("runs", 5, "how often each text is measured")
	url := flag.String("url", "", "of a server, whose answers to typed questions are measured")
	flag.Parse()
	if *url != "" && flag.NArg() == 0 && *runs > 0 {
		if err := rates(*url, *runs); err != nil {
			fmt.Fprintf(os.Stderr, "decide: %v\n", err)
			os.Exit(1)
		}
		return
	}
	if flag.NArg() == 0 || *runs < 1 {
		fmt.Fprintln(os.Stderr, "decide: want models, as files or names, and -runs of 1 at least")
		os.Exit(2)
	}
	fmt.Println("| model | time of generating / deciding | right, generated | right, decided | right, calibrated | ECE | ECE, calibrated | NLL | NLL, calibrated |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, name := range flag.Args() {
		if err := measure(context.Background(), name, *runs); err != nil {
			fmt.Fprintf(os.Stderr, "decide: %s: %v\n", name, err)
			os.Exit(1)
		}
	}
}

// measure prints the line of a model.
func measure(ctx context.Context, name string, runs int) error {
	m, err := quern.Open(ctx, name)
	if err != nil {
		return err
	}
	defer m.Close()
	var scores [][]float64
	var right []int
	generated := 0
	var ofGenerating, ofDeciding time.Duration
	for i, text := range reviews {
		least := [2]time.Duration{math.MaxInt64, math.MaxInt64}
		for run := range runs {
			begun := time.Now()
			said, err := m.Complete(ctx, asked(2*(i*runs+run), text))
			least[0] = min(least[0], time.Since(begun))
			if err != nil {
				return err
			}
			begun = time.Now()
			all, err := m.Decide(ctx, asked(2*(i*runs+run)+1, text), labels...)
			least[1] = min(least[1], time.Since(begun))
			if err != nil {
				return err
			}
			if run > 0 {
				continue
			}
			row := make([]float64, len(labels))
			for _, one := range all {
				row[one.Index] = one.Logprob
			}
			scores, right = append(scores, row), append(right, i%2)
			if strings.HasPrefix(strings.ToLower(strings.TrimSpace(said.Text())), labels[i%2]) {
				generated++
			}
		}
		ofGenerating += least[0]
		ofDeciding += least[1]
	}
	_, before, after, err := reading.Calibrate(ctx, scores, right)
	if err != nil {
		return err
	}
	fmt.Printf("| %s | %.2f | %.2f | %.2f | %.2f | %.3f | %.3f | %.3f | %.3f |\n", name, float64(ofGenerating)/float64(ofDeciding),
		float64(generated)/float64(len(reviews)), before.Accuracy, after.Accuracy, before.ECE, after.ECE, before.NLL, after.NLL)
	return nil
}

// asked is the request about a text, with a number in front so that neither question nor text is in the cache.
func asked(number int, text string) quern.Request {
	zero := 0.0
	return quern.Request{MaxTokens: 16, Temperature: &zero, Messages: []quern.Message{quern.User(
		fmt.Sprintf("No. %d. Is this review positive or negative? Answer with one word: positive or negative.\n\n%s", number, text))}}
}
