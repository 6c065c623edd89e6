"""Tables of a shop in the database that POSTGRES_URI names: python shop.py, and again for changes.

The first time it makes a schema with customers, orders and items. After that it adds a table of
returns, and changes all tables in one transaction.
"""

import os

import psycopg

SCHEMA = """
create schema shop;
create table shop.customers (id bigint primary key, name text not null);
create table shop.orders (id bigint primary key, customer bigint, amount numeric(10, 2));
create table shop.items (order_id bigint, line int, sku text, primary key (order_id, line));
insert into shop.customers select n, 'customer ' || n from generate_series(1, 50) n;
insert into shop.orders select n, 1 + n % 50, 10.50 from generate_series(1, 500) n;
insert into shop.items select n, 1, 'sku ' || n % 9 from generate_series(1, 500) n;
"""
RETURNS = """
create table shop.returns (order_id bigint primary key, reason text);
insert into shop.returns select n, 'too late' from generate_series(1, 20) n;
update shop.customers set name = upper(name) where id <= 10;
update shop.orders set amount = 0 where id <= 20;
delete from shop.items where order_id <= 20;
"""


def main() -> None:
    with psycopg.connect(os.environ["POSTGRES_URI"]) as connection:
        row = connection.execute("select to_regclass('shop.customers') is null").fetchone()
        is_first = row == (True,)
        connection.execute(SCHEMA if is_first else RETURNS)
    print("shop filled" if is_first else "a table added, and all changed")


if __name__ == "__main__":
    main()
