// Runs Helm commands one after the other in one process, because `helm template` spends most of its time on its start.
// The commands are those of the program `helm`, which consists of the same package.
//
// Each line of stdin is a JSON array with the arguments of a command. Each line of stdout is an object with what `helm`
// prints for it. It ends when stdin ends.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log"
	"log/slog"
	"os"

	helm "helm.sh/helm/v4/pkg/cmd"
)

type output struct {
	Succeeded bool   `json:"succeeded"`
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
}

// The buffers are used again because Helm's code keeps references to them.
var stdout, stderr bytes.Buffer

// logToStderr logs as the program `helm` does without --debug.
func logToStderr(bool) {
	withoutTime := func(_ []string, attribute slog.Attr) slog.Attr {
		if attribute.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return attribute
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(&stderr, &slog.HandlerOptions{ReplaceAttr: withoutTime})))
}

func run(arguments []string) output {
	stdout.Reset()
	stderr.Reset()
	command, err := helm.NewRootCmd(&stdout, arguments, logToStderr)
	if err == nil {
		command.SetArgs(arguments)
		command.SetOut(&stdout)
		command.SetErr(&stderr)
		err = command.Execute()
	}
	return output{err == nil, stdout.String(), stderr.String()}
}

func main() {
	commands, outputs := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var arguments []string
		if err := commands.Decode(&arguments); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		if err := outputs.Encode(run(arguments)); err != nil {
			log.Fatal(err)
		}
	}
}
