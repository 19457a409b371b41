package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	ctx := context.Background()
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		panic(err)
	}
	r := redis.NewClient(options)
	job, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	// CONTRACT
}
