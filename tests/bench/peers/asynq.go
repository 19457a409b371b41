// asynq load START_MS RATE COUNT: schedules tasks in asynq's queue "default".
// asynq serve: a server whose queue is paused, so that only its forwarder is at work (forwarder.go; DelayedTaskCheckInterval has its
// default, 5 s).
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/hibiken/asynq"
)

const producers = 16

func load(redis asynq.RedisConnOpt, start, rate, count int64) {
	var group sync.WaitGroup
	for first := int64(0); first < producers; first++ {
		group.Add(1)
		go func() {
			defer group.Done()
			client := asynq.NewClient(redis)
			defer client.Close()
			for i := first; i < count; i += producers {
				due := start
				if rate > 0 {
					due += i * 1000 / rate
				}
				task := asynq.NewTask("job", []byte(fmt.Sprintf("%0100d", i)))
				if _, err := client.Enqueue(task, asynq.ProcessAt(time.UnixMilli(due))); err != nil {
					log.Fatal(err)
				}
			}
		}()
	}
	group.Wait()
}

func serve(redis asynq.RedisConnOpt) {
	if err := asynq.NewInspector(redis).PauseQueue("default"); err != nil {
		log.Fatal(err)
	}
	server := asynq.NewServer(redis, asynq.Config{LogLevel: asynq.ErrorLevel})
	nothing := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })
	if err := server.Start(nothing); err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready")
	select {}
}

func main() {
	redis, err := asynq.ParseRedisURI(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	if os.Args[1] == "serve" {
		serve(redis)
	}
	var numbers [3]int64
	for i := range numbers {
		if numbers[i], err = strconv.ParseInt(os.Args[2+i], 10, 64); err != nil {
			log.Fatal(err)
		}
	}
	load(redis, numbers[0], numbers[1], numbers[2])
}
