mod block;
mod examples;
mod farewell;
mod images;
mod metrics;
mod on_servers_of_this_process;
mod send;
