package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

func write(name, line string) {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	fmt.Fprintln(file, line)
}

func first(name string) bool {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false
	}
	file.Close()
	return true
}

// The handler of the tests: see tests/clients/python/handler.py.
func handle(job []byte) error {
	words := strings.SplitN(string(job), " ", 3)
	write("runs", hex.EncodeToString(job))
	switch words[0] {
	case "flaky":
		if first("seen-" + words[1]) {
			return errors.New("not yet")
		}
	case "poison":
		return errors.New("poison, caf\u00e9")
	case "hopeless":
		return errors.New("!no such address")
	case "hang":
		if first("seen-" + words[1]) {
			write("hangs", fmt.Sprint(os.Getpid()))
			time.Sleep(10 * time.Minute)
		}
	case "wait":
		for {
			if _, err := os.Stat("go"); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	write("done", hex.EncodeToString(job))
	return nil
}
