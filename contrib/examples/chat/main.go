// Chat is a conversation in a terminal: chat [MODEL]. Each line is a message; the end of input ends it. Ctrl-C ends an
// answer.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/quern-llm/quern"
)

func main() {
	name := quern.Demo
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	m, err := quern.Open(context.Background(), name)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	session, err := m.NewSession(quern.Request{
		Messages: []quern.Message{quern.System("You are friendly and brief.")}, MaxTokens: 200,
	})
	if err != nil {
		log.Fatal(err)
	}
	in := bufio.NewScanner(os.Stdin)
	for fmt.Print("> "); in.Scan(); fmt.Print("> ") {
		if err := answer(session, in.Text()); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println()
}

// answer prints the answer to a message as it comes.
func answer(session *quern.Session, text string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for ev, err := range session.Chat(ctx, quern.User(text)) {
		if errors.Is(err, context.Canceled) {
			return errors.New("stopped: the message is taken back")
		}
		if err != nil {
			return err
		}
		fmt.Print(ev.Text)
	}
	fmt.Println()
	return nil
}
